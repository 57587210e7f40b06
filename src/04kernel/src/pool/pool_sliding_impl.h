#pragma once
#include "pool/pool_positions_impl.h"

// The largest of windows of 3 or 5 neighbouring columns at every position of a row: each column's largest is found
// once, in registers, for all windows that see it.

namespace refactor::kernel {
namespace {

/// Positions of a strip, whose columns are two vectors each.
template <int Cols>
constexpr int kSliding = 14 - (Cols - 1);

/// Columns [first_in, end_in), counted from `x`, are inside.
struct Slide {
    Stored const* x;
    int64_t planes, plane_step, rows, x_row, first_in, end_in;
    Stored* y;
};

template <int Cols, bool Edge, int Q>
[[gnu::noinline]] void slide(Slide const& s) {
    constexpr int kColumns = Q + Cols - 1;
    Lanes columns[kColumns];
#pragma GCC unroll 14
    for (int i = 0; i < kColumns; ++i) columns[i] = none<true>();
    for (int64_t d = 0; d < s.planes; ++d) {
        Stored const* x = s.x + d * s.plane_step;
        for (int64_t h = 0; h < s.rows; ++h, x += s.x_row)
#pragma GCC unroll 14
            for (int i = 0; i < kColumns; ++i) {
                if (Edge && ((i < Cols - 1 && i < s.first_in) || (i >= Q && i >= s.end_in))) continue;
                columns[i] = both<true>(columns[i], Lanes::load(x + i * kLanes));
            }
    }
    Stored* const y = s.y;
#pragma GCC unroll 14
    for (int q = 0; q < Q; ++q) {
        Lanes best = columns[q];
#pragma GCC unroll 4
        for (int v = 1; v < Cols; ++v) best = both<true>(best, columns[q + v]);
        best.store(y + q * kLanes);
    }
}

using SlideFunction = void (*)(Slide const&);
template <int Cols, bool Edge, int... q>
struct Slides {
    static constexpr SlideFunction table[] = {nullptr, slide<Cols, Edge, q + 1>...};
};
template <int Cols, bool Edge, int N, int... q>
struct MakeSlides : MakeSlides<Cols, Edge, N - 1, N - 1, q...> {};
template <int Cols, bool Edge, int... q>
struct MakeSlides<Cols, Edge, 0, q...> : Slides<Cols, Edge, q...> {};

/// Whether there are functions for these windows, under each of which is an input.
bool slides(BlockJob const& j) {
    return j.maximum && (j.kernel_cols == 3 || j.kernel_cols == 5) && j.col_stride == 1 && j.col_dilation == 1 &&
           j.col_pad < j.kernel_cols && j.out_cols - 1 - j.col_pad < j.in_cols;
}

template <int Cols>
void slide_row(BlockJob const& j, int64_t row) {
    using Inside = MakeSlides<Cols, false, kSliding<Cols>>;
    using Edge = MakeSlides<Cols, true, kSliding<Cols>>;
    int64_t const start = row * j.row_stride - j.row_pad;
    Part const rows = taps_inside(start, j.row_dilation, j.kernel_rows, j.in_rows);
    int64_t const in_row = start + rows.first * j.row_dilation;
    Slide s{nullptr, j.planes, j.plane_step, rows.end - rows.first, j.row_dilation * j.in_cols * kLanes, 0, 0, nullptr};
    int64_t const strips = (j.out_cols + kSliding<Cols> - 1) / kSliding<Cols>;
    for (int64_t t = 0, col = 0; t < strips; ++t) {
        int64_t const next = j.out_cols * (t + 1) / strips, n = next - col, in_col = col - j.col_pad;
        s.x = j.x + (in_row * j.in_cols + in_col) * kLanes, s.y = j.y + (row * j.out_cols + col) * kLanes;
        s.first_in = -in_col, s.end_in = j.in_cols - in_col;
        bool const edge = s.first_in > 0 || s.end_in < n + Cols - 1;
        (edge ? Edge::table : Inside::table)[n](s);
        col = next;
    }
}

void slide_rows(BlockJob const& j) {
    for (int64_t row = j.row; row < j.row_end; ++row) j.kernel_cols == 3 ? slide_row<3>(j, row) : slide_row<5>(j, row);
}

}  // namespace
}  // namespace refactor::kernel
