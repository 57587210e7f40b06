#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

// Winograd F(4×4, 3×3): a 4 × 4 tile of outputs from a 6 × 6 tile of inputs by 36 products instead of 144.
//     Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A
// summed over channels between the two transforms, where it is 36 matrix products. Source: Lavin & Gray, "Fast
// Algorithms for Convolutional Neural Networks" (arXiv 1509.09308), points 0, ±1, ±2, ∞.

namespace refactor::kernel {

//
// A kernel along one axis takes the same in one dimension: four outputs of 3 taps from 6 inputs by 6 products instead
// of 12; four of 5 taps (two of 7) from 8 inputs by 8 products instead of 20 (14), with the points ±1/2 besides.

/// How many outputs a tile has and what they cost.
struct WinogradForm {
    int64_t kernel[2];  ///< rows, columns
    int64_t tile[2];    ///< outputs: rows, columns
    int64_t products;   ///< inputs of a tile as well

    bool plane() const { return kernel[0] > 1 && kernel[1] > 1; }
    int64_t taps() const { return kernel[0] * kernel[1]; }
};
/// That of a kernel, or null: 3 × 3, or 3, 5 or 7 along one axis.
WinogradForm const* winograd_form(int64_t kernel_rows, int64_t kernel_cols);

/// Transforms of a run of tiles for some units. Tiles are counted over images, planes of outputs, rows and columns of
/// tiles. A unit is a block of channels; of inputs of a kernel with depth, a block of channels under one of its planes.
struct WinogradJob {
    float const* x;
    float* y;
    float const* bias;
    float const* residual;
    int64_t in_rows, in_cols, out_rows, out_cols, row_pad, col_pad;
    int64_t in_planes, out_planes, plane_stride, plane_dilation, plane_pad;
    int64_t tile_rows, tile_cols;  ///< tiles of one plane
    bool along_rows;               ///< of a kernel along one axis: the axis is that of rows
    int64_t first_tile, tiles;
    int64_t blocks;                ///< of channels of the tensor
    int64_t first_unit, end_unit;  ///< the range to transform
    float* transformed;            ///< [product][unit][tile][channel]
    int64_t product_stride;        ///< floats between products
    int32_t last_lanes;            ///< channels in the last block of the output
    bool residual_last;
    Activation activation;
};

/// One instruction set and form.
struct WinogradIsa {
    void (*input)(WinogradJob const&);   ///< reads x, writes transformed
    void (*output)(WinogradJob const&);  ///< reads transformed, writes y
};
WinogradIsa const& winograd_avx2();
WinogradIsa const& winograd_avx512();
/// For kernels along one axis of 3, 5 or 7 taps.
WinogradIsa const& winograd_line_avx2(int64_t taps);
WinogradIsa const& winograd_line_avx512(int64_t taps);

}  // namespace refactor::kernel
