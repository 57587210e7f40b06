#pragma once
#include <cstddef>
#include <cstdint>

// The boundary between what scatters (baseline code) and the loops over rows of f32.

namespace refactor::kernel {

/// Combines `row` updates, `step` behind those before, with what is at `to[i]` and behind it, in elements; rows of one
/// call to y may overlap, updates do not overlap with y. A minimum or maximum of NaN is NaN.
struct PutFloats {
    using Rows = void (*)(std::byte* y, int64_t const* to, int64_t count, int64_t row, std::byte const* updates,
                          int64_t step);
    Rows add, multiply, least, largest;
};
PutFloats const& put_floats_avx2();

}  // namespace refactor::kernel
