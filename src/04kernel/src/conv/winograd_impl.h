#pragma once
#include "conv/store_impl.h"
#include "conv/winograd_parts_impl.h"

namespace refactor::kernel {
namespace {

void transform_tile(float const* x, int64_t x_row, float* v, int64_t v_stride) {
    Vec columns[6][6];
#pragma GCC unroll 6
    for (int c = 0; c < 6; ++c) {
        Vec d[6], t[6];
#pragma GCC unroll 6
        for (int r = 0; r < 6; ++r) d[r] = Vec::load(x + r * x_row + c * W);
        input_1d(d, t);
#pragma GCC unroll 6
        for (int r = 0; r < 6; ++r) columns[r][c] = t[r];
    }
#pragma GCC unroll 6
    for (int r = 0; r < 6; ++r) {
        Vec t[6];
        input_1d(columns[r], t);
#pragma GCC unroll 6
        for (int c = 0; c < 6; ++c) t[c].store(v + (r * 6 + c) * v_stride);
    }
}

/// The part of a 6 × 6 tile at (row, col) that lies inside the plane, zeros around it.
void gather_tile(WinogradJob const& j, float const* plane, int64_t row, int64_t col, float* tile) {
    for (int64_t r = 0; r < 6; ++r)
        for (int64_t c = 0; c < 6; ++c) {
            bool inside = row + r >= 0 && row + r < j.in_rows && col + c >= 0 && col + c < j.in_cols;
            Vec v = inside ? Vec::load(plane + ((row + r) * j.in_cols + col + c) * W) : Vec::zero();
            v.store(tile + (r * 6 + c) * W);
        }
}

void transform_input(WinogradJob const& j) {
    alignas(64) float edge[36 * W];
    for (int64_t u = j.first_unit; u < j.end_unit; ++u) {
        Place at(j, j.first_tile);
        int64_t b = u % j.blocks, depth = u / j.blocks * j.plane_dilation - j.plane_pad;
        float* v = j.transformed + u * j.tiles * W;
        for (int64_t t = 0; t < j.tiles; ++t, v += W, at.next(j)) {
            int64_t z = at.plane * j.plane_stride + depth;
            if (z < 0 || z >= j.in_planes) {
                for (int p = 0; p < 36; ++p) Vec::zero().store(v + p * j.product_stride);
                continue;
            }
            float const* plane = j.x + ((at.image * j.blocks + b) * j.in_planes + z) * j.in_rows * j.in_cols * W;
            int64_t row = at.row * 4 - j.row_pad, col = at.col * 4 - j.col_pad;
            if (row >= 0 && col >= 0 && row + 6 <= j.in_rows && col + 6 <= j.in_cols) {
                transform_tile(plane + (row * j.in_cols + col) * W, j.in_cols * W, v, j.product_stride);
            } else {
                gather_tile(j, plane, row, col, edge);
                transform_tile(edge, 6 * W, v, j.product_stride);
            }
        }
    }
}

void transform_output(WinogradJob const& j) {
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
            Vec half[4][6];
#pragma GCC unroll 6
            for (int c = 0; c < 6; ++c) {
                Vec d[6], y[4];
#pragma GCC unroll 6
                for (int r = 0; r < 6; ++r) d[r] = Vec::load(m + (r * 6 + c) * j.product_stride);
                output_1d(d, y);
#pragma GCC unroll 4
                for (int r = 0; r < 4; ++r) half[r][c] = y[r];
            }
            int64_t row = at.row * 4, col = at.col * 4;
            int64_t rows = j.out_rows - row < 4 ? j.out_rows - row : 4,
                    cols = j.out_cols - col < 4 ? j.out_cols - col : 4;
            int64_t plane = ((at.image * j.blocks + b) * j.out_planes + at.plane) * j.out_rows;
#pragma GCC unroll 4
            for (int r = 0; r < 4; ++r) {
                if (r >= rows) break;
                Vec y[4];
                output_1d(half[r], y);
                int64_t offset = ((plane + row + r) * j.out_cols + col) * W;
#pragma GCC unroll 4
                for (int c = 0; c < 4; ++c) {
                    if (c >= cols) break;
                    Vec v = y[c] + bias;
                    if (before) v = v + Vec::load(j.residual + offset + c * W);
                    v = min(range.high, max(range.low, v));
                    if (after) v = v + Vec::load(j.residual + offset + c * W);
                    select(mask, v, Vec::zero()).store(j.y + offset + c * W);
                }
                if (!clamp)
                    activate_stored(j.y + offset, j.residual && j.residual_last ? j.residual + offset : nullptr, W,
                                    static_cast<int>(cols), lanes, j.activation);
            }
        }
    }
}

constexpr WinogradIsa kWinogradIsa{transform_input, transform_output};

}  // namespace
}  // namespace refactor::kernel
