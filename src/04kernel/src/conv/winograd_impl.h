#pragma once
#include "conv/store_impl.h"
#include "conv/winograd_parts_impl.h"

namespace refactor::kernel {
namespace {

/// Where the transformed inputs of a tile go, or its products come from, for one unit: of one tile after the other.
template <int inputs, int outputs, int stride>
class Streams {
    static constexpr bool kStrided = stride > 1;
    float* first_;
    int64_t step_, at_ = 0;
    float* each_[kStrided ? inputs * inputs : 1];

public:
    RG_SIMD Streams(WinogradJob const& j, int64_t unit) : step_(j.product_stride) {
        first_ = j.transformed + unit * j.tiles * W;
        if constexpr (kStrided) {
            constexpr int odd = outputs + 1, filters = odd + 1;
            for (int i = 0; i < inputs * inputs; ++i) {
                int r = i / inputs, c = i % inputs, row = r < odd ? 0 : r - odd, column = c < odd ? 0 : c - odd;
                int across = c < odd ? 1 : outputs, sharing = (r < odd ? 1 : outputs) * across;
                int64_t product = (r < odd ? r : odd) * filters + (c < odd ? c : odd);
                each_[i] = j.transformed + j.products[product] + (unit * sharing + row * across + column) * j.tiles * W;
            }
        }
    }
    RG_SIMD float* of(int r, int c) const {
        if constexpr (kStrided) return each_[r * inputs + c] + at_;
        return first_ + (r * inputs + c) * step_;
    }
    RG_SIMD void next() {
        if constexpr (kStrided)
            at_ += W;
        else
            first_ += W;
    }
};

/// Tiles of `outputs` × `outputs` from `inputs` × `inputs`.
template <int outputs, int stride>
struct Planes {
    static constexpr int inputs = stride * (outputs - 1) + 3;
    using Stream = Streams<inputs, outputs, stride>;

    /// First row (column) of outputs of a tile.
    RG_SIMD static int64_t first_of(int64_t tile, int64_t phase_tiles, int64_t dilation) {
        return tile / phase_tiles + tile % phase_tiles * outputs * dilation;
    }
    /// Rows (columns) of a tile that lie inside the output.
    RG_SIMD static int64_t inside_of(int64_t first, int64_t dilation, int64_t size) {
        int64_t count = first < size ? (size - first + dilation - 1) / dilation : 0;
        return count < outputs ? count : outputs;
    }

    static void transform_tile(float const* x, int64_t x_row, int64_t x_col, Stream const& v) {
        // Rows behind these are rows of x, every second one.
        constexpr int transformed = stride > 1 ? outputs + 1 : inputs;
        Vec columns[transformed][inputs];
#pragma GCC unroll 9
        for (int c = 0; c < inputs; ++c) {
            Vec d[inputs], t[inputs];
#pragma GCC unroll 9
            for (int r = 0; r < inputs; ++r) d[r] = Vec::load(x + r * x_row + c * x_col);
            input_1d(d, t);
#pragma GCC unroll 9
            for (int r = 0; r < transformed; ++r) columns[r][c] = t[r];
        }
#pragma GCC unroll 9
        for (int r = 0; r < inputs; ++r) {
            Vec d[inputs], t[inputs];
#pragma GCC unroll 9
            for (int c = 0; c < inputs; ++c)
                d[c] = r < transformed ? columns[r][c] : Vec::load(x + (2 * (r - transformed) + 1) * x_row + c * x_col);
            input_1d(d, t);
#pragma GCC unroll 9
            for (int c = 0; c < inputs; ++c) t[c].store(v.of(r, c));
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
            Stream v(j, u);
            for (int64_t t = 0; t < j.tiles; ++t, v.next(), at.next(j)) {
                int64_t z = at.plane * j.plane_stride + depth;
                if (z < 0 || z >= j.in_planes) {
                    for (int p = 0; p < inputs * inputs; ++p) Vec::zero().store(v.of(p / inputs, p % inputs));
                    continue;
                }
                float const* plane =
                    j.x + ((at.image * j.image_blocks + b) * j.in_planes + z) * j.in_rows * j.in_cols * W;
                int64_t row = stride * first_of(at.row, j.phase_rows, j.row_dilation) - j.row_pad;
                int64_t col = stride * first_of(at.col, j.phase_cols, j.col_dilation) - j.col_pad;
                bool inside = row >= 0 && col >= 0 && row + (inputs - 1) * j.row_dilation < j.in_rows &&
                              col + (inputs - 1) * j.col_dilation < j.in_cols;
                if (inside) {
                    transform_tile(plane + (row * j.in_cols + col) * W, j.row_dilation * j.in_cols * W,
                                   j.col_dilation * W, v);
                } else {
                    gather_tile(j, plane, row, col, edge);
                    transform_tile(edge, inputs * W, W, v);
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
            Stream m(j, b);
            for (int64_t t = 0; t < j.tiles; ++t, m.next(), at.next(j)) {
                Vec half[outputs][inputs];
#pragma GCC unroll 9
                for (int c = 0; c < inputs; ++c) {
                    Vec d[inputs], y[outputs];
#pragma GCC unroll 9
                    for (int r = 0; r < inputs; ++r) d[r] = Vec::load(m.of(r, c));
                    output_1d(d, y);
#pragma GCC unroll 9
                    for (int r = 0; r < outputs; ++r) half[r][c] = y[r];
                }
                int64_t row = first_of(at.row, j.phase_rows, j.row_dilation);
                int64_t col = first_of(at.col, j.phase_cols, j.col_dilation);
                int64_t rows = inside_of(row, j.row_dilation, j.out_rows),
                        cols = inside_of(col, j.col_dilation, j.out_cols);
                int64_t const step = j.col_dilation * W;
                int64_t plane = ((at.image * j.image_blocks + b) * j.out_planes + at.plane) * j.out_rows;
#pragma GCC unroll 9
                for (int r = 0; r < outputs; ++r) {
                    if (r >= rows || cols == 0) break;
                    Vec y[outputs];
                    output_1d(half[r], y);
                    int64_t offset = ((plane + row + r * j.row_dilation) * j.out_cols + col) * W;
#pragma GCC unroll 9
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

template <int outputs, int stride>
constexpr WinogradIsa kPlanes{Planes<outputs, stride>::input, Planes<outputs, stride>::output};

RG_SIMD WinogradIsa const& planes_of(int64_t outputs) {
    return outputs == 2 ? kPlanes<2, 1> : outputs == 4 ? kPlanes<4, 1> : kPlanes<6, 1>;
}
RG_SIMD WinogradIsa const& strided_planes_of(int64_t outputs) { return outputs == 2 ? kPlanes<2, 2> : kPlanes<4, 2>; }

}  // namespace
}  // namespace refactor::kernel
