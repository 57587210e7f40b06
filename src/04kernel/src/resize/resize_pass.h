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
    /// bf16 as f32.
    void (*widen)(uint16_t const* x, float* y, int64_t size);
    /// `blend` to the nearest bf16; `sum` has room for `size` floats.
    void (*blend_narrow)(int count, float const* const* rows, float const* weights, float* sum, uint16_t* y,
                         int64_t size);
    /// y[i] = x[index[i]] of `count` words, whatever they mean; x has `size`.
    void (*pick)(int32_t const* index, int64_t count, uint32_t const* x, int64_t size, uint32_t* y);
};
ResizeFunctions const& resize_functions();  ///< of any processor
ResizeFunctions const& resize_functions_avx2();
ResizeFunctions const& resize_functions_avx512();
/// Those of AVX-512, with the rounding of AVX512-BF16: denormals become zero.
ResizeFunctions const& resize_functions_avx512bf16();

/// As `ResizeFunctions::resize`; sums in the order of taps and without fused operations, as the reference.
void resize_rows(ResizePass const& pass, double const* x, double* y, int64_t begin, int64_t end);

}  // namespace refactor::kernel
