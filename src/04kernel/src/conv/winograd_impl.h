#pragma once
#include "conv/store_impl.h"
#include "conv/winograd_parts_impl.h"

namespace refactor::kernel {
namespace {

/// Tiles of `outputs` × `outputs` from `inputs` × `inputs`.
template <int outputs>
struct Planes {
    static constexpr int inputs = outputs + 2;

    /// First row (column) of outputs of a tile.
    RG_SIMD static int64_t first_of(int64_t tile, int64_t phase_tiles, int64_t dilation) {
        return tile / phase_tiles + tile % phase_tiles * outputs * dilation;
    }
    /// Rows (columns) of a tile that lie inside the output.
    RG_SIMD static int64_t inside_of(int64_t first, int64_t dilation, int64_t size) {
        int64_t count = first < size ? (size - first + dilation - 1) / dilation : 0;
        return count < outputs ? count : outputs;
    }

    static void transform_tile(float const* x, int64_t x_row, int64_t x_col, float* v, int64_t v_stride) {
        Vec columns[inputs][inputs];
#pragma GCC unroll 8
        for (int c = 0; c < inputs; ++c) {
            Vec d[inputs], t[inputs];
#pragma GCC unroll 8
            for (int r = 0; r < inputs; ++r) d[r] = Vec::load(x + r * x_row + c * x_col);
            input_1d(d, t);
#pragma GCC unroll 8
            for (int r = 0; r < inputs; ++r) columns[r][c] = t[r];
        }
#pragma GCC unroll 8
        for (int r = 0; r < inputs; ++r) {
            Vec t[inputs];
            input_1d(columns[r], t);
#pragma GCC unroll 8
            for (int c = 0; c < inputs; ++c) t[c].store(v + (r * inputs + c) * v_stride);
        }
    }

    /// The part of a tile at (row, col) that lies inside the plane, zeros around it.
    static void gather_tile(WinogradJob const& j, float const* plane, int64_t row, int64_t col, float* tile) {
        for (int64_t r = 0; r < inputs; ++r)
            for (int64_t c = 0; c < inputs; ++c) {
                int64_t y = row + r * j.row_dilation, x = col + c * j.col_dilation;
                bool inside = y >= 0 && y < j.in_rows && x >= 0 && x < j.in_cols;
                Vec v = inside ? Vec::load(plane + (y * j.in_cols + x) * W) : Vec::zero();
                v.store(tile + (r * inputs + c) * W);
            }
    }

    static void input(WinogradJob const& j) {
        alignas(64) float edge[inputs * inputs * W];
        for (int64_t u = j.first_unit; u < j.end_unit; ++u) {
            Place at(j, j.first_tile);
            int64_t b = u % j.blocks, depth = u / j.blocks * j.plane_dilation - j.plane_pad;
            float* v = j.transformed + u * j.tiles * W;
            for (int64_t t = 0; t < j.tiles; ++t, v += W, at.next(j)) {
                int64_t z = at.plane * j.plane_stride + depth;
                if (z < 0 || z >= j.in_planes) {
                    for (int p = 0; p < inputs * inputs; ++p) Vec::zero().store(v + p * j.product_stride);
                    continue;
                }
                float const* plane =
                    j.x + ((at.image * j.image_blocks + b) * j.in_planes + z) * j.in_rows * j.in_cols * W;
                int64_t row = first_of(at.row, j.phase_rows, j.row_dilation) - j.row_pad;
                int64_t col = first_of(at.col, j.phase_cols, j.col_dilation) - j.col_pad;
                bool inside = row >= 0 && col >= 0 && row + (inputs - 1) * j.row_dilation < j.in_rows &&
                              col + (inputs - 1) * j.col_dilation < j.in_cols;
                if (inside) {
                    transform_tile(plane + (row * j.in_cols + col) * W, j.row_dilation * j.in_cols * W,
                                   j.col_dilation * W, v, j.product_stride);
                } else {
                    gather_tile(j, plane, row, col, edge);
                    transform_tile(edge, inputs * W, W, v, j.product_stride);
                }
            }
        }
    }

    static void output(WinogradJob const& j) {
        bool const clamp = simple(j.activation.kind);
        Range const range(clamp ? j.activation : Activation{});
        bool const before = j.residual && !j.residual_last, after = j.residual && j.residual_last && clamp;
        for (int64_t b = j.first_unit; b < j.end_unit; ++b) {
            Place at(j, j.first_tile);
            int lanes = b + 1 == j.blocks ? j.last_lanes : W;
            Mask const mask = first_lanes(lanes);
            Vec const bias = j.bias ? Vec::load_first(j.bias + b * W, lanes) : Vec::zero();
            float const* m = j.transformed + b * j.tiles * W;
            for (int64_t t = 0; t < j.tiles; ++t, m += W, at.next(j)) {
                Vec half[outputs][inputs];
#pragma GCC unroll 8
                for (int c = 0; c < inputs; ++c) {
                    Vec d[inputs], y[outputs];
#pragma GCC unroll 8
                    for (int r = 0; r < inputs; ++r) d[r] = Vec::load(m + (r * inputs + c) * j.product_stride);
                    output_1d(d, y);
#pragma GCC unroll 8
                    for (int r = 0; r < outputs; ++r) half[r][c] = y[r];
                }
                int64_t row = first_of(at.row, j.phase_rows, j.row_dilation);
                int64_t col = first_of(at.col, j.phase_cols, j.col_dilation);
                int64_t rows = inside_of(row, j.row_dilation, j.out_rows),
                        cols = inside_of(col, j.col_dilation, j.out_cols);
                int64_t const step = j.col_dilation * W;
                int64_t plane = ((at.image * j.image_blocks + b) * j.out_planes + at.plane) * j.out_rows;
#pragma GCC unroll 8
                for (int r = 0; r < outputs; ++r) {
                    if (r >= rows || cols == 0) break;
                    Vec y[outputs];
                    output_1d(half[r], y);
                    int64_t offset = ((plane + row + r * j.row_dilation) * j.out_cols + col) * W;
#pragma GCC unroll 8
                    for (int c = 0; c < outputs; ++c) {
                        if (c >= cols) break;
                        Vec v = y[c] + bias;
                        if (before) v = v + Vec::load(j.residual + offset + c * step);
                        v = min(range.high, max(range.low, v));
                        if (after) v = v + Vec::load(j.residual + offset + c * step);
                        select(mask, v, Vec::zero()).store(j.y + offset + c * step);
                    }
                    if (!clamp)
                        activate_stored(j.y + offset, j.residual && j.residual_last ? j.residual + offset : nullptr,
                                        step, static_cast<int>(cols), lanes, j.activation);
                }
            }
        }
    }
};

template <int outputs>
constexpr WinogradIsa kPlanes{Planes<outputs>::input, Planes<outputs>::output};

RG_SIMD WinogradIsa const& planes_of(int64_t outputs) {
    return outputs == 2 ? kPlanes<2> : outputs == 4 ? kPlanes<4> : kPlanes<6>;
}

}  // namespace
}  // namespace refactor::kernel
