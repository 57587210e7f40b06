#pragma once
#include <cstdint>

namespace refactor::kernel {

/// One axis of a separable resampling: of X [outer, in, inner] to Y [outer, out, inner].
struct ResizePass {
    int64_t in, out, inner, taps;
    int32_t const* index;  ///< [out][taps]; see `AxisTaps`
    float const* weight;
};

/// Rows [begin, end) of the outer * out ones of Y. Elements whose weight is zero are not read.
void resize_rows(ResizePass const& pass, float const* x, float* y, int64_t begin, int64_t end);
void resize_rows_avx2(ResizePass const& pass, float const* x, float* y, int64_t begin, int64_t end);
/// Sums in the order of taps and without fused operations, as the reference.
void resize_rows(ResizePass const& pass, double const* x, double* y, int64_t begin, int64_t end);

}  // namespace refactor::kernel
