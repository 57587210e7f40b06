#pragma once
#include <cstddef>
#include <cstdint>

// The boundary between what scatters (baseline code) and the loops over rows of f32.

namespace refactor::kernel {

/// `y[i] = combine(y[i], update)` of `count` elements; rows do not overlap. A minimum or maximum of NaN is NaN.
struct CombineRows {
    using Function = void (*)(std::byte* y, std::byte const* updates, int64_t count);
    Function add, multiply, least, largest;
};
CombineRows const& combine_rows_avx2();

}  // namespace refactor::kernel
