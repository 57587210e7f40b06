#pragma once
#include "common/error.h"
#include "runtime/value.h"

#include <cmath>

/// How long a Range is whose bounds are data.
namespace refactor::kernel {

template <class T>
T range_scalar(runtime::Value const& value, DataType dtype) {
    T number{};
    convert(value.dtype, on_host(value).data<void>(), dtype, &number, 1);
    return number;
}

inline int64_t range_length(double start, double limit, double delta) {
    auto count = std::ceil((limit - start) / delta);
    if (!(std::abs(count) < 0x1p40)) throw InvalidInput("the range would have " + std::to_string(count) + " elements");
    return std::max(static_cast<int64_t>(count), int64_t{0});
}

inline int64_t range_length(int64_t start, int64_t limit, int64_t delta) {
    if (delta > 0 ? start >= limit : start <= limit) return 0;
    // Differences of 64 bit integers fit into 64 bits without a sign.
    auto span = delta > 0 ? static_cast<uint64_t>(limit) - static_cast<uint64_t>(start)
                          : static_cast<uint64_t>(start) - static_cast<uint64_t>(limit);
    auto step = delta > 0 ? static_cast<uint64_t>(delta) : 0 - static_cast<uint64_t>(delta);
    auto count = (span - 1) / step + 1;
    if (count >> 40) throw InvalidInput("the range would have " + std::to_string(count) + " elements");
    return static_cast<int64_t>(count);
}

/// Computed in T, which is `computed`.
template <class T>
struct RangeOf {
    T start, delta;
    int64_t count;

    /// `inputs`: those of `make_range`. Throws `InvalidInput`.
    static RangeOf of(std::span<runtime::Value const* const> inputs, DataType computed) {
        auto start = range_scalar<T>(*inputs[0], computed), limit = range_scalar<T>(*inputs[1], computed),
             delta = range_scalar<T>(*inputs[2], computed);
        if (delta == T{}) throw InvalidInput("delta is 0");
        return {start, delta, range_length(start, limit, delta)};
    }
};

}  // namespace refactor::kernel
