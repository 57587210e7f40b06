#pragma once
#include <cstdint>

namespace refactor::kernel {

/// One axis of a separable resampling: of X [outer, in, inner] to Y [outer, out, inner].
struct ResizePass {
    int64_t in, out, inner, taps;
    int32_t const* index;  ///< [out][taps]; see `AxisTaps`
    float const* weight;
    int32_t const* tap_index;  ///< the same as [taps][out]
    float const* tap_weight;
};

/// Loops over f32, by instruction set. Elements whose weight is zero are not read.
struct ResizeFunctions {
    /// Rows [begin, end) of the outer * out of Y.
    void (*resize)(ResizePass const& pass, float const* x, float* y, int64_t begin, int64_t end);
    /// y = sum of `count` rows of `size` elements, each times its weight; at least one.
    void (*blend)(int count, float const* const* rows, float const* weights, float* y, int64_t size);
};
ResizeFunctions const& resize_functions();  ///< of any processor
ResizeFunctions const& resize_functions_avx2();

/// As `ResizeFunctions::resize`; sums in the order of taps and without fused operations, as the reference.
void resize_rows(ResizePass const& pass, double const* x, double* y, int64_t begin, int64_t end);

}  // namespace refactor::kernel
