#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace refactor::kernel {

/// out[i] = start + i * delta; integers wrap.
template <class T>
void fill_range(T* out, int64_t n, T start, T delta) {
    // A multiple of all vectors: compilers need loops of a constant length for them.
    constexpr int64_t kTogether = 16;
    int64_t i = 0;
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        U lanes[kTogether];
        for (int64_t k = 0; k < kTogether; ++k) lanes[k] = static_cast<U>(static_cast<U>(k) * static_cast<U>(delta));
        auto first = static_cast<U>(start), step = static_cast<U>(static_cast<U>(kTogether) * static_cast<U>(delta));
        for (; i + kTogether <= n; i += kTogether, first = static_cast<U>(first + step))
            for (int64_t k = 0; k < kTogether; ++k) out[i + k] = static_cast<T>(static_cast<U>(first + lanes[k]));
        for (int64_t k = 0; i < n; ++i, ++k) out[i] = static_cast<T>(static_cast<U>(first + lanes[k]));
    } else {
        // Integers of 32 bits have conversions of vectors.
        auto const narrow = std::min<int64_t>(n, INT32_MAX - kTogether);
        for (; i + kTogether <= narrow; i += kTogether)
            for (int32_t k = 0; k < kTogether; ++k)
                out[i + k] = start + static_cast<T>(static_cast<int32_t>(i) + k) * delta;
        for (; i < n; ++i) out[i] = start + static_cast<T>(i) * delta;
    }
}

}  // namespace refactor::kernel
