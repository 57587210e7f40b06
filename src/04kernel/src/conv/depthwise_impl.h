#pragma once
#include "conv/depthwise.h"
#include "conv/store_impl.h"
#include "conv/window_impl.h"

namespace refactor::kernel {
namespace {

/// Positions whose sums are kept in registers: each multiply-add loads its own input, so 12 chains only have to hide
/// the latency.
constexpr int kPositions = W == 16 ? 14 : 12;

/// Positions along a row or a column that see the same part of the window.
struct Strip {
    float const* x;               ///< input under the first tap of the part, of the first position
    int64_t x_step;               ///< between positions
    float const* w;               ///< first tap of the part
    int64_t rows, cols;           ///< taps of the part
    int64_t x_row, x_col, w_row;  ///< between taps
    float* y;
    float const* residual;
    int64_t y_step;
};

template <int Q>
[[gnu::noinline]] void strip(DepthwiseJob const& j, Strip const& s) {
    Vec acc[Q];
    Vec start = j.bias ? Vec::load_first(j.bias, j.lanes) : Vec::zero();
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) acc[q] = start;
    int64_t const step = s.x_step;
    for (int64_t h = 0; h < s.rows; ++h) {
        float const *x = s.x + h * s.x_row, *w = s.w + h * s.w_row;
        for (int64_t v = 0; v < s.cols; ++v, x += s.x_col, w += W) {
            Vec weight = Vec::load(w);
            float const* p = x;
#pragma GCC unroll 14
            for (int q = 0; q < Q; ++q, p += step) acc[q] = fma(weight, Vec::load(p), acc[q]);
        }
    }
    bool const clamp = simple(j.activation.kind);
    bool const before = s.residual && !j.residual_last, after = s.residual && j.residual_last && clamp;
    Range const range(clamp ? j.activation : Activation{});
    Mask const lanes = first_lanes(j.lanes);
    float* const y = s.y;
    float const* const residual = s.residual;
    int64_t const y_step = s.y_step;
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) {
        Vec v = acc[q];
        if (before) v = v + Vec::load(residual + q * y_step);
        v = min(range.high, max(range.low, v));
        if (after) v = v + Vec::load(residual + q * y_step);
        select(lanes, v, Vec::zero()).store(y + q * y_step);
    }
    if (!clamp) activate_stored(y, j.residual_last ? residual : nullptr, y_step, Q, j.lanes, j.activation);
}

using StripFunction = void (*)(DepthwiseJob const&, Strip const&);
template <int... q>
struct Strips {
    static constexpr StripFunction table[] = {nullptr, strip<q + 1>...};
};
template <int N, int... q>
struct MakeStrips : MakeStrips<N - 1, N - 1, q...> {};
template <int... q>
struct MakeStrips<0, q...> : Strips<q...> {};

/// `count` outputs from (row, col) on, along the row or (`down`) along the column, which see the same part of the
/// window.
void run_strip(DepthwiseJob const& j, int64_t row, int64_t col, int64_t count, bool down) {
    Part rows(row * j.row_stride - j.row_pad, j.row_dilation, j.kernel_rows, j.in_rows);
    Part cols(col * j.col_stride - j.col_pad, j.col_dilation, j.kernel_cols, j.in_cols);
    int64_t in_row = row * j.row_stride - j.row_pad + rows.first * j.row_dilation;
    int64_t in_col = col * j.col_stride - j.col_pad + cols.first * j.col_dilation;
    int64_t at = (row * j.out_cols + col) * W;
    Strip s{j.x + (in_row * j.in_cols + in_col) * W,
            (down ? j.row_stride * j.in_cols : j.col_stride) * W,
            j.w + (rows.first * j.kernel_cols + cols.first) * W,
            rows.end - rows.first,
            cols.end - cols.first,
            j.row_dilation * j.in_cols * W,
            j.col_dilation * W,
            j.kernel_cols * W,
            j.y + at,
            j.residual ? j.residual + at : nullptr,
            (down ? j.out_cols : 1) * W};
    if (s.cols == 0) s.rows = 0;
    int64_t strips = (count + kPositions - 1) / kPositions;
    for (int64_t t = 0, done = 0; t < strips; ++t) {
        int64_t next = count * (t + 1) / strips, n = next - done;
        MakeStrips<kPositions>::table[n](j, s);
        s.x += n * s.x_step, s.y += n * s.y_step, done = next;
        if (s.residual) s.residual += n * s.y_step;
    }
}

void run_rows(DepthwiseJob const& j) {
    Outputs rows = inner(j.in_rows, j.row_end, j.kernel_rows, j.row_stride, j.row_dilation, j.row_pad);
    Outputs cols = inner(j.in_cols, j.out_cols, j.kernel_cols, j.col_stride, j.col_dilation, j.col_pad);
    walk(j.row, j.row_end, j.out_cols, rows, cols,
         [&](int64_t row, int64_t col, int64_t count, bool down) { run_strip(j, row, col, count, down); });
}

constexpr DepthwiseIsa kDepthwiseIsa{W, run_rows};

}  // namespace
}  // namespace refactor::kernel
