#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

// Winograd F(4×4, 3×3): a 4 × 4 tile of outputs from a 6 × 6 tile of inputs by 36 products instead of 144.
//     Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A
// summed over channels between the two transforms, where it is 36 matrix products. Source: Lavin & Gray, "Fast
// Algorithms for Convolutional Neural Networks" (arXiv 1509.09308), points 0, ±1, ±2, ∞.

namespace refactor::kernel {

inline constexpr int64_t kWinogradTile = 4, kWinogradInput = 6, kWinogradProducts = 36;

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
    int64_t first_tile, tiles;
    int64_t blocks;                ///< of channels of the tensor
    int64_t first_unit, end_unit;  ///< the range to transform
    float* transformed;            ///< [product][unit][tile][channel]
    int64_t product_stride;        ///< floats between products
    int32_t last_lanes;            ///< channels in the last block of the output
    bool residual_last;
    Activation activation;
};

/// One instruction set.
struct WinogradIsa {
    void (*input)(WinogradJob const&);   ///< reads x, writes transformed
    void (*output)(WinogradJob const&);  ///< reads transformed, writes y
};
WinogradIsa const& winograd_avx2();
WinogradIsa const& winograd_avx512();

/// G g Gᵀ of one 3 × 3 kernel, computed in f64.
void winograd_weights(float const* g, float (&u)[kWinogradProducts]);

}  // namespace refactor::kernel
