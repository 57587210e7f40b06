#pragma once
#include "conv/store_impl.h"
#include "conv/winograd_parts_impl.h"

namespace refactor::kernel {
namespace {

/// Tiles of `outputs` outputs from `inputs` inputs.
template <int outputs, int inputs>
struct Lines {
    /// The first output of a tile along the axis.
    RG_SIMD static int64_t first_output(WinogradJob const& j, Place const& at) {
        return j.along_rows ? first_of<outputs>(at.row, j.phase_rows, j.row_dilation)
                            : first_of<outputs>(at.col, j.phase_cols, j.col_dilation);
    }

    static void input(WinogradJob const& j) {
        int64_t const length = j.along_rows ? j.in_rows : j.in_cols, pad = j.along_rows ? j.row_pad : j.col_pad;
        int64_t const dilation = j.along_rows ? j.in_rows_apart : j.in_cols_apart;
        int64_t const place = j.along_rows ? j.in_cols * W : W, step = dilation * place;
        int64_t const between = j.along_rows ? j.piece_rows : j.piece_cols;
        for (int64_t unit = j.first_unit; unit < j.end_unit; ++unit) {
            Place at(j, j.first_tile);
            int64_t const b = unit % j.blocks, shift = unit / j.blocks * between - pad;
            float* v = j.transformed + unit * j.tiles * W;
            for (int64_t t = 0; t < j.tiles; ++t, v += W, at.next(j)) {
                int64_t first = first_output(j, at) * j.step + shift;
                float const* x = j.x + (at.image * j.image_blocks + b) * j.in_rows * j.in_cols * W +
                                 (j.along_rows ? at.col * W : at.row * j.in_cols * W) + first * place;
                auto inside = [&](int64_t i) __attribute__((always_inline)) {
                    return first + i * dilation >= 0 && first + i * dilation < length;
                };
                bool const whole = inside(0) && inside(inputs - 1);
                Vec d[inputs], u[inputs];
#pragma GCC unroll 8
                for (int i = 0; i < inputs; ++i) d[i] = whole || inside(i) ? Vec::load(x + i * step) : Vec::zero();
                input_1d(d, u);
#pragma GCC unroll 8
                for (int i = 0; i < inputs; ++i) u[i].store(v + i * j.product_stride);
            }
        }
    }

    static void output(WinogradJob const& j) {
        bool const clamp = simple(j.activation.kind);
        Range const range(clamp ? j.activation : Activation{});
        bool const before = j.residual && !j.residual_last, after = j.residual && j.residual_last && clamp;
        auto const& weave = j.weave;
        int64_t const length = j.along_rows ? weave.out_rows : weave.out_cols;
        int64_t const dilation = j.along_rows ? j.row_dilation : j.col_dilation;
        int64_t const strides = j.along_rows ? weave.rows : weave.cols;
        int64_t const place = j.along_rows ? weave.out_cols * W : W, step = dilation * strides * place;
        for (int64_t b = j.first_unit; b < j.end_unit; ++b) {
            Place at(j, j.first_tile);
            int64_t const channel = b % weave.blocks, phase = b / weave.blocks;
            int64_t const shift = (j.along_rows ? weave.first_row : weave.first_col) + phase;
            int lanes = channel + 1 == weave.blocks ? j.last_lanes : W;
            Mask const mask = first_lanes(lanes);
            Vec const bias = j.bias ? Vec::load_first(j.bias + channel * W, lanes) : Vec::zero();
            float const* m = j.transformed + b * j.tiles * W;
            for (int64_t t = 0; t < j.tiles; ++t, m += W, at.next(j)) {
                Vec d[inputs], y[outputs];
#pragma GCC unroll 8
                for (int i = 0; i < inputs; ++i) d[i] = Vec::load(m + i * j.product_stride);
                output_1d(d, y);
                int64_t first = first_output(j, at) * strides + shift;
                Inside<outputs> const inside(first, dilation * strides, length);
                int64_t offset = (at.image * j.image_blocks + channel) * weave.out_rows * weave.out_cols * W +
                                 (j.along_rows ? at.col * W : at.row * weave.out_cols * W) + first * place;
#pragma GCC unroll 5
                for (int i = 0; i < outputs; ++i) {
                    if (i < inside.begin || i >= inside.end) continue;
                    Vec v = y[i] + bias;
                    if (before) v = v + Vec::load(j.residual + offset + i * step);
                    v = min(range.high, max(range.low, v));
                    if (after) v = v + Vec::load(j.residual + offset + i * step);
                    select(mask, v, Vec::zero()).store(j.y + offset + i * step);
                }
                if (clamp || inside.begin == inside.end) continue;
                offset += inside.begin * step;
                activate_stored(j.y + offset, j.residual && j.residual_last ? j.residual + offset : nullptr, step,
                                static_cast<int>(inside.end - inside.begin), lanes, j.activation);
            }
        }
    }
};

constexpr WinogradIsa kTwoTaps{Lines<5, 6>::input, Lines<5, 6>::output};
constexpr WinogradIsa kThreeTaps{Lines<4, 6>::input, Lines<4, 6>::output};
constexpr WinogradIsa kFourTaps{Lines<5, 8>::input, Lines<5, 8>::output};
constexpr WinogradIsa kFiveTaps{Lines<4, 8>::input, Lines<4, 8>::output};

RG_SIMD WinogradIsa const& line_of(WinogradForm const& form) {
    int64_t const taps = form.piece[0] * form.piece[1];
    if (taps == 2) return kTwoTaps;
    return taps == 3 ? kThreeTaps : taps == 4 ? kFourTaps : kFiveTaps;
}

}  // namespace
}  // namespace refactor::kernel
