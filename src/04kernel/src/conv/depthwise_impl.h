#pragma once
#include "conv/depthwise_spread_impl.h"
#include "conv/depthwise_strips_impl.h"
#include "conv/window_impl.h"

namespace refactor::kernel {
namespace {

using StripFunction = void (*)(Job const&, Strip const&);
template <int... q>
struct Strips {
    static constexpr StripFunction any[] = {nullptr, strip<q + 1>...};
    static constexpr StripFunction in_groups[] = {nullptr, grouped<q + 1>...};
    template <int Cols, int Stride, bool Edge, bool Grouped>
    static constexpr StripFunction along[] = {nullptr, sliding<Cols, Stride, Edge, Grouped, q + 1>...};
    template <int Stride, bool Edge>
    static constexpr StripFunction in_runs[] = {nullptr, sliding_in_runs<Stride, Edge, q + 1>...};
};
template <int N, int... q>
struct MakeStrips : MakeStrips<N - 1, N - 1, q...> {};
template <int... q>
struct MakeStrips<0, q...> : Strips<q...> {};

/// `sliding` by number of positions; null if the window has no such function.
template <bool Edge>
StripFunction const* sliding_for(Job const& j) {
    using All = MakeStrips<kPositions>;
    if (j.col_dilation != 1 || j.col_stride > 2) return nullptr;
    // Every position has an input under it.
    if (j.col_pad >= j.kernel_cols || (j.out_cols - 1) * j.col_stride - j.col_pad >= j.in_cols) return nullptr;
    bool one = j.col_stride == 1;
    if (j.width > 1) {
        if (j.kernel_cols != 3) return nullptr;
        return one ? All::along<3, 1, Edge, true> : All::along<3, 2, Edge, true>;
    }
    if (j.kernel_cols == 3) return one ? All::along<3, 1, Edge, false> : All::along<3, 2, Edge, false>;
    if (j.kernel_cols == 5) return one ? All::along<5, 1, Edge, false> : All::along<5, 2, Edge, false>;
    // Without a register for an input it is loaded for every tap all the same.
    if constexpr (kHolds)
        if (j.kernel_cols > 5) return one ? All::in_runs<1, Edge> : All::in_runs<2, Edge>;
    return nullptr;
}

/// All outputs of a row by `sliding`.
void run_row(Job const& j, int64_t row, StripFunction const* inside, StripFunction const* edge) {
    Part rows(row * j.row_stride - j.row_pad, j.row_dilation, j.kernel_rows, j.in_rows);
    int64_t in_row = row * j.row_stride - j.row_pad + rows.first * j.row_dilation;
    Strip s{};
    s.w_row = j.kernel_cols * j.width * kLanes, s.w = j.w + rows.first * s.w_row;
    s.rows = rows.end - rows.first, s.x_row = j.row_dilation * j.in_cols * kLanes, s.y_step = kLanes;
    int64_t strips = (j.out_cols + kPositions - 1) / kPositions;
    for (int64_t t = 0, col = 0; t < strips; ++t) {
        int64_t next = j.out_cols * (t + 1) / strips, n = next - col, in_col = col * j.col_stride - j.col_pad;
        int64_t at = (row * j.out_cols + col) * kLanes, reach = (n - 1) * j.col_stride + j.kernel_cols;
        s.x = j.x + (in_row * j.in_cols + in_col) * kLanes;
        s.y = j.y + at, s.residual = j.residual ? j.residual + at : nullptr;
        s.first_in = -in_col, s.end_in = j.in_cols - in_col;
        (s.first_in > 0 || s.end_in < reach ? edge : inside)[n](j, s);
        col = next;
    }
}

/// `count` outputs from (row, col) on, along the row or (`down`) along the column, which see the same part of the
/// window.
void run_strip(Job const& j, int64_t row, int64_t col, int64_t count, bool down) {
    Part rows(row * j.row_stride - j.row_pad, j.row_dilation, j.kernel_rows, j.in_rows);
    Part cols(col * j.col_stride - j.col_pad, j.col_dilation, j.kernel_cols, j.in_cols);
    int64_t in_row = row * j.row_stride - j.row_pad + rows.first * j.row_dilation;
    int64_t in_col = col * j.col_stride - j.col_pad + cols.first * j.col_dilation;
    int64_t at = (row * j.out_cols + col) * kLanes;
    Strip s{j.x + (in_row * j.in_cols + in_col) * kLanes,
            (down ? j.row_stride * j.in_cols : j.col_stride) * kLanes,
            j.w + (rows.first * j.kernel_cols + cols.first) * j.width * kLanes,
            rows.end - rows.first,
            cols.end - cols.first,
            j.row_dilation * j.in_cols * kLanes,
            j.col_dilation * kLanes,
            j.kernel_cols * j.width * kLanes,
            j.y + at,
            j.residual ? j.residual + at : nullptr,
            (down ? j.out_cols : 1) * kLanes};
    if (s.cols == 0) s.rows = 0;
    int64_t strips = (count + kPositions - 1) / kPositions;
    for (int64_t t = 0, done = 0; t < strips; ++t) {
        int64_t next = count * (t + 1) / strips, n = next - done;
        (j.width == 1 ? MakeStrips<kPositions>::any : MakeStrips<kPositions>::in_groups)[n](j, s);
        s.x += n * s.x_step, s.y += n * s.y_step, done = next;
        if (s.residual) s.residual += n * s.y_step;
    }
}

void run_rows(Job const& j) {
    if (auto* inside = sliding_for<false>(j)) {
        auto* edge = sliding_for<true>(j);
        for (int64_t row = j.row; row < j.row_end; ++row) run_row(j, row, inside, edge);
        return;
    }
    Outputs rows = inner(j.in_rows, j.row_end, j.kernel_rows, j.row_stride, j.row_dilation, j.row_pad);
    Outputs cols = inner(j.in_cols, j.out_cols, j.kernel_cols, j.col_stride, j.col_dilation, j.col_pad);
    walk(j.row, j.row_end, j.out_cols, rows, cols,
         [&](int64_t row, int64_t col, int64_t count, bool down) { run_strip(j, row, col, count, down); });
}

constexpr DepthwiseIsaOf<Stored> kDepthwiseIsa{kLanes, run_rows, spread};

}  // namespace
}  // namespace refactor::kernel
