#pragma once
#include "pool/pool_blocked.h"
#include "pool/pool_lanes.h"
#include "pool/pool_maximum.h"
#include "pool/pool_window.h"

// Windows over Plain planes, one vector of columns after the other. Every row that the windows read is reduced along
// itself into a line of scratch memory; the lines of a window are then reduced in the vectors that they were stored in,
// which the processor forwards.

namespace refactor::kernel {
namespace {

/// How the taps of a row are read: one vector each; of windows at every second column two, of which every second
/// element counts, and the elements between where they are the next tap.
struct Loads {
    static constexpr int kMost = 16;  ///< in one go
    int64_t count, step, pairs;       ///< the first `pairs` hold two taps

    explicit Loads(Job const& j) {
        bool both = j.col_stride == 2 && j.col_dilation == 1;
        count = both ? (j.kernel_cols + 1) / 2 : j.kernel_cols;
        step = both ? 2 : j.col_dilation;
        pairs = both ? j.kernel_cols / 2 : 0;
    }
};

template <bool Maximum>
RG_SIMD Vec joined(Vec a, Vec b) {
    return Maximum ? maximum(a, b) : a + b;
}

template <bool Maximum, bool edge>
RG_SIMD Vec tap(Element const* p, Mask mask) {
    if constexpr (edge) return load_masked(p, mask, Vec::set(Maximum ? -kInf : 0));
    return Vec::load(p);
}

/// `acc` joined with the masked lanes of memory, nothing else of which is touched.
template <bool Maximum>
RG_SIMD Vec joined_masked(Vec acc, Element const* p, Mask mask) {
#ifdef __AVX512F__
    if constexpr (Maximum) return maximum_masked(acc, p, mask);
#endif
    return joined<Maximum>(acc, load_masked(p, mask, Vec::set(Maximum ? -kInf : 0)));
}

/// Rows of one vector of windows, `x` at the first tap of the first one.
struct RowTaps {
    Element const* x;
    int64_t rows, x_row, step, count, pairs;
    Element* h;  ///< [rows][W]
    bool onto;   ///< what is in `h` is part of the result
};
/// `n`: the loads, or 0: `count`.
template <bool Maximum, int stride, int n, bool edge>
[[gnu::noinline]] void reduce_rows(RowTaps const& taps, Mask const* from) {
    RowTaps const t = taps;  // stores of vectors might alias what is not a local variable
    constexpr int kMasks = stride * (n ? n : Loads::kMost);
    int64_t const count = n ? n : t.count, pairs = t.pairs, step = t.step;
    Mask masks[kMasks];
    for (int64_t i = 0; i < (edge ? count * stride : 0); ++i) masks[i] = from[i];
    Element* h = t.h;
    Element const* row = t.x;
    for (int64_t r = 0; r < t.rows; ++r, row += t.x_row, h += W) {
        Element const* x = row;
        Vec acc;
#pragma GCC unroll 5
        for (int64_t i = 0; i < count; ++i, x += step) {
            if constexpr (stride == 1 && edge) {
                acc = i ? joined_masked<Maximum>(acc, x, masks[i]) : tap<Maximum, true>(x, masks[i]);
                continue;
            }
            Vec value = tap<Maximum, edge>(x, masks[i * stride]);
            if constexpr (stride == 2) {
                Vec next = tap<Maximum, edge>(x + W, masks[i * stride + 1]), first = value;
                value = evens(first, next);
                if (i < pairs) value = joined<Maximum>(value, odds(first, next));
            }
            acc = i ? joined<Maximum>(acc, value) : value;
        }
        (t.onto ? joined<Maximum>(Vec::load(h), acc) : acc).store(h);
    }
}
template <bool Maximum, int stride, bool edge>
void reduce_rows(RowTaps const& t, Mask const* masks) {
    switch (t.count) {
        case 1:
            return reduce_rows<Maximum, stride, 1, edge>(t, masks);
        case 2:
            return reduce_rows<Maximum, stride, 2, edge>(t, masks);
        case 3:
            return reduce_rows<Maximum, stride, 3, edge>(t, masks);
        case 5:
            return reduce_rows < Maximum, stride, stride == 1 ? 5 : 0, edge > (t, masks);
        default:
            return reduce_rows<Maximum, stride, 0, edge>(t, masks);
    }
}

/// `rows` rows of input from x on for the windows from column `col` on, in chunks of the most loads.
template <bool Maximum, int stride>
void reduce_block(Job const& j, Element const* x, int64_t rows, int64_t col, Element* h) {
    Loads const loads(j);
    for (int64_t done = 0; done < loads.count; done += Loads::kMost) {
        int64_t const left = loads.count - done, now = left < Loads::kMost ? left : Loads::kMost;
        int64_t const from = col * stride - j.col_pad + done * loads.step;
        RowTaps const taps{x + from, rows, j.in_cols, loads.step, now, loads.pairs - done, h, done > 0};
        if (from >= 0 && from + (now - 1) * loads.step + stride * W <= j.in_cols) {
            reduce_rows<Maximum, stride, false>(taps, nullptr);
            continue;
        }
        Mask masks[2 * Loads::kMost];
        for (int64_t i = 0; i < now; ++i)
            for (int64_t part = 0; part < stride; ++part)
                masks[i * stride + part] = lanes_inside(from + i * loads.step + part * W, j.in_cols);
        reduce_rows<Maximum, stride, true>(taps, masks);
    }
}

/// Rows of one vector of windows that see as much of the input as each other, `h` at the first line of the first one.
struct LineTaps {
    Element const* h;
    int64_t rows, h_row, planes, plane_step, lines, line_step;
    Element* y;
    int64_t y_row;
    int lanes;
};
/// `n`: the lines of the only plane, or 0: `lines` of `planes`.
template <bool Maximum, int n, bool whole>
[[gnu::noinline]] void reduce_lines(LineTaps const& taps, Vec scale) {
    LineTaps const t = taps;
    int64_t const lines = n ? n : t.lines, planes = n ? 1 : t.planes, step = t.line_step;
    Element const* h = t.h;
    Element* y = t.y;
    for (int64_t row = 0; row < t.rows; ++row, h += t.h_row, y += t.y_row) {
        Vec acc = n ? Vec::load(h) : Vec::set(Maximum ? -kInf : 0);
        for (int64_t plane = 0; plane < planes; ++plane)
#pragma GCC unroll 5
            for (int64_t i = n ? 1 : 0; i < lines; ++i)
                acc = joined<Maximum>(acc, Vec::load(h + plane * t.plane_step + i * step));
        if (!Maximum) acc = acc * scale;
        whole ? acc.store(y) : acc.store_first(y, t.lanes);
    }
}
template <bool Maximum, bool whole>
void reduce_lines(LineTaps const& t, Vec scale) {
    switch (t.planes == 1 ? t.lines : 0) {
        case 1:
            return reduce_lines<Maximum, 1, whole>(t, scale);
        case 2:
            return reduce_lines<Maximum, 2, whole>(t, scale);
        case 3:
            return reduce_lines<Maximum, 3, whole>(t, scale);
        case 5:
            return reduce_lines<Maximum, 5, whole>(t, scale);
        default:
            return reduce_lines<Maximum, 0, whole>(t, scale);
    }
}

/// What the sums at columns [col, col + lanes) of a row are multiplied by.
RG_SIMD Vec scale_of(Job const& j, int64_t row, int64_t inside, int64_t col, int lanes) {
    if (j.maximum || j.total) return Vec::set(1);
    if (j.count_padding) {
        int64_t const padded = j.in_rows + j.row_pad + j.row_pad_end;
        Part counted = taps_inside(row * j.row_stride, j.row_dilation, j.kernel_rows, padded);
        inside = counted.end - counted.first;
    }
    Vec divisor = Vec::set(static_cast<Element>(j.counted_planes * inside));
    divisor = divisor * Vec::load_first(j.counted_columns + col, lanes);
    return select(divisor > Vec::zero(), Vec::set(1) / divisor, Vec::zero());
}

/// Rows [first, last) of the output, which need `in_rows` of each plane of the input from `top` on.
struct Band {
    int64_t first, last, top, in_rows;
};
Band band_of(Job const& j, int64_t first, int64_t rows) {
    int64_t const last = first + rows < j.row_end ? first + rows : j.row_end;
    int64_t const start = first * j.row_stride - j.row_pad, top = start < 0 ? 0 : start;
    int64_t end = (last - 1) * j.row_stride - j.row_pad + (j.kernel_rows - 1) * j.row_dilation + 1;
    if (end > j.in_rows) end = j.in_rows;
    return {first, last, top, end > top ? end - top : 0};
}
template <bool Maximum>
void finish_block(Job const& j, Band const& band, Outputs whole, int64_t col, Element const* h) {
    int64_t const left = j.out_cols - col;
    int const lanes = static_cast<int>(left < W ? left : W);
    for (int64_t row = band.first; row < band.last;) {
        int64_t const start = row * j.row_stride - j.row_pad;
        Part const inside = taps_inside(start, j.row_dilation, j.kernel_rows, j.in_rows);
        int64_t const lines = inside.end - inside.first;
        int64_t const together =
            row < whole.first || row >= whole.end ? 1 : (whole.end < band.last ? whole.end : band.last) - row;
        LineTaps const taps{h + (start + inside.first * j.row_dilation - band.top) * W,
                            together,
                            j.row_stride * W,
                            j.planes,
                            band.in_rows * W,
                            lines,
                            j.row_dilation * W,
                            j.y + row * j.out_cols + col,
                            j.out_cols,
                            lanes};
        Vec const scale = scale_of(j, row, lines, col, lanes);
        (lanes == W ? reduce_lines<Maximum, true> : reduce_lines<Maximum, false>)(taps, scale);
        row += together;
    }
}

/// Windows that lie inside a single row and fill vectors, straight to where they go: columns [first, end).
template <bool Maximum, int stride>
Outputs inner_vectors(Job const& j) {
    Loads const loads(j);
    int64_t const first = (j.col_pad + stride * W - 1) / (stride * W) * W;
    int64_t const reach = first * stride - j.col_pad + (loads.count - 1) * loads.step + stride * W;
    if (loads.count > Loads::kMost || reach > j.in_cols || first + W > j.out_cols) return {first, first};
    int64_t const room = (j.in_cols - reach) / (stride * W) + 1, left = (j.out_cols - first) / W;
    int64_t const vectors = room < left ? room : left;
    Element const* x = j.x + first * stride - j.col_pad;
    Element* y = j.y + first;
    reduce_rows<Maximum, stride, false>({x, vectors, stride * W, loads.step, loads.count, loads.pairs, y, false},
                                        nullptr);
    if (!Maximum && !j.total)
        reduce_lines<Maximum, true>({y, vectors, W, 1, 0, 1, 0, y, W, W}, scale_of(j, 0, 1, first, W));
    return {first, first + vectors * W};
}

template <bool Maximum>
void band_rows(Job const& j, Band const& band, Outputs whole, Element* h) {
    Outputs done{0, 0};
    if (j.planes * j.in_rows * band.last == 1 && j.kernel_rows == 1)
        done = (j.col_stride == 2 ? inner_vectors<Maximum, 2> : inner_vectors<Maximum, 1>)(j);
    for (int64_t col = 0; col < j.out_cols; col += W) {
        if (col == done.first && col < done.end) col = done.end;
        if (col >= j.out_cols) return;
        for (int64_t plane = 0; plane < j.planes; ++plane)
            (j.col_stride == 2 ? reduce_block<Maximum, 2>
                               : reduce_block<Maximum, 1>)(j, j.x + plane * j.plane_step + band.top * j.in_cols,
                                                           band.in_rows, col, h + plane * band.in_rows * W);
        finish_block<Maximum>(j, band, whole, col, h);
    }
}

void strips(Job const& j, int64_t together, Element* memory) {
    Outputs const whole = inner(j.in_rows, j.row_end, j.kernel_rows, j.row_stride, j.row_dilation, j.row_pad);
    for (int64_t row = j.row; row < j.row_end; row += together)
        (j.maximum ? band_rows<true> : band_rows<false>)(j, band_of(j, row, together), whole, memory);
}

}  // namespace
}  // namespace refactor::kernel
