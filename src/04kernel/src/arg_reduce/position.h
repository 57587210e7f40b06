#pragma once
// Internal linkage.
#include <cstdint>

namespace refactor::kernel {
namespace {

/// The type of the size of an element that counts elements.
template <int kBytes>
struct Counter {
    using type = int64_t;
};
template <>
struct Counter<1> {
    using type = int8_t;
};
template <>
struct Counter<2> {
    using type = int16_t;
};
template <>
struct Counter<4> {
    using type = int32_t;
};

/// Position of the first (or the last) of `size` elements that `found` is true of; there is one. Elements are asked in
/// steps of a fixed number, which the compiler turns into vectors.
template <class T, class F>
[[gnu::always_inline]] inline int64_t position_of(T const* x, int64_t size, bool last, F const& found) {
    using C = typename Counter<sizeof(T)>::type;
    constexpr C kStep = 64 / sizeof(T);
    auto any = [&](T const* from) __attribute__((always_inline)) {
        C hits = 0;
        for (C j = 0; j < kStep; ++j) hits = static_cast<C>(hits | (found(from[j]) ? 1 : 0));
        return hits != 0;
    };
    int64_t i = last ? size - 1 : 0;
    if (last) {
        while (i + 1 >= kStep && !any(x + i + 1 - kStep)) i -= kStep;
        while (!found(x[i])) --i;
    } else {
        while (i + kStep <= size && !any(x + i)) i += kStep;
        while (!found(x[i])) ++i;
    }
    return i;
}

}  // namespace
}  // namespace refactor::kernel
