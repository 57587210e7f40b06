#pragma once
#include "kernel/epilogue.h"

#include <algorithm>
#include <cstdint>
#include <optional>

// Winograd F(n×n, 3×3): an n × n tile of outputs from a tile of (n + 2)² inputs by as many products, instead of 9 n².
//     Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A
// summed over channels between the two transforms, where it is (n + 2)² matrix products. Source: Lavin & Gray, "Fast
// Algorithms for Convolutional Neural Networks" (arXiv 1509.09308), points 0, ±1 (n = 2), ±2 (4), ±1/2 (6) and ∞.
//
// Of 9 products a pixel 4 are left with n = 2, 2.25 with 4 and 1.78 with 6; filters take 1.8, 4 and 7.1 times their
// memory. Small images do not fill large tiles, and their filters are read for few of them.
//
// A stride of 2 along both axes takes outputs from even inputs by the outer taps, which are a kernel of two taps with
// stride 1, and from odd inputs by the middle tap: along one axis n + 1 products of n + 1 even inputs, transformed, and
// n of odd inputs as they are, all of these by one filter. Of 9 products a pixel 6.25 are left with n = 2 and 5.06 with
// 4 (points 0, 1, and -1, 2), for as many filters as without a stride.
//
// Kernels of other sizes take the same points. F(3×3, 2×2) takes those of n = 2, for 1.78 products a pixel instead of
// 4, F(2×2, 5×5) those of n = 4, for 9 instead of 25, F(4×4, 5×5) and F(2×2, 7×7) those of n = 6, for 4 instead of 25
// and 16 instead of 49. Larger ones are cut into pieces of 4 or 5 taps along an axis, whichever makes fewer products:
// pieces add up as channels do. A tile of 5 × 5 outputs takes 64 products of each piece of 4 × 4 taps: 10.24 a pixel
// for 7 × 7, which are four pieces. (F(5×5, 2×2), for 1.44 products, has ten times the error of F(3×3, 2×2).)
//
// Any other stride s makes s × s phases of the input, of which each is convolved with every s-th tap by a stride of 1:
// as pieces, they add up. Four taps with a stride of 2 take 7.1 products a pixel instead of 16, five 9 instead of 25.
//
// A kernel along one axis takes the same in one dimension: four outputs of 3 taps, or five of 2, from 6 inputs by 6
// products instead of 12 or 10; four of 5 taps, or five of 4, from 8 inputs by 8 products instead of 20, which 7 taps
// take twice for five.

namespace refactor::kernel {

/// How many outputs a tile has and what they cost.
struct WinogradForm {
    int64_t kernel[2];  ///< rows, columns
    int64_t tile[2];    ///< outputs: rows, columns
    int64_t piece[2];   ///< taps that a filter is made of: rows, columns; those behind the kernel are zero
    int64_t stride = 1;
    int64_t step = 1;  ///< a stride as well, if pieces are the phases of the input: taps and inputs so far apart

    bool plane() const { return kernel[0] > 1 && kernel[1] > 1; }
    int64_t taps() const { return kernel[0] * kernel[1]; }
    bool strided() const { return stride > 1; }
    /// Pieces of the kernel along an axis.
    int64_t pieces(int axis) const {
        return step > 1 ? std::min(step, kernel[axis]) : (kernel[axis] + piece[axis] - 1) / piece[axis];
    }
    int64_t first_tap(int axis, int64_t of_piece) const { return step > 1 ? of_piece : of_piece * piece[axis]; }
    int64_t pieces() const { return pieces(0) * pieces(1); }
    int64_t products(int axis) const { return tile[axis] + piece[axis] - 1; }
    /// Filters of a piece; inputs of a tile as well, unless it is strided.
    int64_t products() const { return products(0) * products(1); }
    /// Inputs of a tile, which are multiplied by a filter each.
    int64_t inputs() const { return strided() ? (2 * tile[0] + 1) * (2 * tile[1] + 1) : products(); }
    /// Inputs of a tile that product `p` multiplies: a row (column) of odd inputs shares its filter.
    int64_t sharing(int64_t p) const {
        if (!strided()) return 1;
        auto odd = tile[0] + 1, filters = odd + 1;
        return (p / filters == odd ? tile[0] : 1) * (p % filters == odd ? tile[1] : 1);
    }
};
/// That of a square kernel of 2 taps or more with tiles of `outputs`²: 2, 4 or 6 of 3 × 3 (2 or 4 with a stride of 2),
/// 4 or 5 of pieces of 5 or 4, 2 of 5 × 5 and 7 × 7, 3 of 2 × 2. Of 2 taps or more along one axis whatever `outputs`.
std::optional<WinogradForm> winograd_form(int64_t kernel_rows, int64_t kernel_cols, int64_t outputs,
                                          int64_t stride = 1);

/// Where outputs go: to every position; or, of a transposed convolution, whose channels are those of rows × cols phases
/// one after the other, position p of phase r to row p · rows + first_row + r, and columns alike. Rows and columns that
/// Y does not have are left out.
struct WinogradWeave {
    int64_t rows = 1, cols = 1, first_row = 0, first_col = 0;
    int64_t out_rows, out_cols;  ///< of Y
    int64_t blocks;              ///< of channels of Y, of a group
};

/// Transforms of a run of tiles for some units. Tiles are counted over images, planes of outputs, rows and columns of
/// tiles. A unit is a block of channels; of inputs, a block of channels under one piece of one plane of the kernel.
struct WinogradJob {
    float const* x;
    float* y;
    float const* bias;
    float const* residual;
    int64_t in_rows, in_cols, row_pad, col_pad;
    WinogradWeave weave;
    int64_t in_planes, out_planes, plane_stride, plane_dilation, plane_pad;
    int64_t tile_rows, tile_cols;  ///< tiles of one plane
    int64_t phase_rows,
        phase_cols;  ///< and of one phase: with a dilation d, every d-th row (column) is one of d planes
    int64_t row_dilation, col_dilation;
    int64_t step;                          ///< of the form
    int64_t in_rows_apart, in_cols_apart;  ///< rows (columns) between inputs of a tile
    bool along_rows;                       ///< of a kernel along one axis: the axis is that of rows
    int64_t pieces, pieces_across;         ///< of the kernel, and of a row of it
    int64_t piece_rows, piece_cols;        ///< rows (columns) of the input between pieces
    int64_t first_tile, tiles;
    int64_t blocks;                ///< of channels of the group
    int64_t image_blocks;          ///< of channels of the tensor: from one image to the next
    int64_t first_unit, end_unit;  ///< the range to transform
    float* transformed;            ///< [product][unit][input that shares it][tile][channel]
    int64_t product_stride;        ///< floats between products
    int64_t const* products;       ///< of a strided form instead: floats to each product
    int32_t last_lanes;            ///< channels in the last block of the output
    bool residual_last;
    Activation activation;
    bool far;  ///< what the next tiles read and store is asked for
};

/// One instruction set and form.
struct WinogradIsa {
    void (*input)(WinogradJob const&);   ///< reads x, writes transformed
    void (*output)(WinogradJob const&);  ///< reads transformed, writes y
};
/// For kernels of planes.
WinogradIsa const& winograd_avx2(WinogradForm const&);
WinogradIsa const& winograd_avx512(WinogradForm const&);
/// For kernels along one axis.
WinogradIsa const& winograd_line_avx2(WinogradForm const&);
WinogradIsa const& winograd_line_avx512(WinogradForm const&);

}  // namespace refactor::kernel
