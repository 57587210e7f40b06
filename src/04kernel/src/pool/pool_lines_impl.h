#pragma once
#include "pool/pool_strips_impl.h"
#include "simd/every_third.h"

// Windows over Plain planes in passes along rows: planes of a window are joined to one, its rows to a line, columns of
// the line to the result. Rows that windows below each other share are joined once.

namespace refactor::kernel {
namespace {

/// `Numbers`: the largest where nothing is NaN, for which the instruction does.
enum class Join : uint8_t { Sum, Largest, Numbers };

template <Join join>
RG_SIMD Vec join_of(Vec a, Vec b) {
    if constexpr (join == Join::Numbers)
        return max(a, b);
    else
        return joined<join == Join::Largest>(a, b);
}

/// How many whole vectors are worked on at a time; 0: the first lanes of one.
template <int n>
struct Vectors {
    static constexpr int count = n ? n : 1;
    static constexpr bool whole = n > 0;
};
/// Calls `each(Vectors, from, lanes)` for `count` elements, the last of which may come twice: results may not be
/// written over what is read.
template <class F>
RG_SIMD void along(int64_t count, F&& each) {
    int64_t i = 0;
    for (; i + 2 * W <= count; i += 2 * W) each(Vectors<2>{}, i, W);
    for (; i + W <= count; i += W) each(Vectors<1>{}, i, W);
    if (i == count) return;
    if (count > W)
        each(Vectors<1>{}, count - W, W);
    else
        each(Vectors<0>{}, i, static_cast<int>(count));
}
template <class V>
RG_SIMD Vec load_of(V, Element const* p, int lanes) {
    return V::whole ? Vec::load(p) : Vec::load_first(p, lanes);
}
template <class V>
RG_SIMD void store_of(V, Vec x, Element* p, int lanes) {
    V::whole ? x.store(p) : x.store_first(p, lanes);
}

bool has_nan(Element const* x, int64_t count) {
    Mask found = is_nan(Vec::zero());
    along(
        count, [&](auto v, int64_t i, int lanes) __attribute__((always_inline)) {
            Vec a = load_of(v, x + i, lanes);
            found = found | (v.count == 2 ? either_nan(a, Vec::load(x + i + W)) : is_nan(a));
        });
    return any(found);
}

/// y[i] of `taps` elements from x[i] on, `step` apart.
template <Join join>
void join_taps(Element const* x, int64_t step, int64_t taps, Element* y, int64_t count) {
    along(
        count, [&](auto v, int64_t i, int lanes) __attribute__((always_inline)) {
            Vec acc[v.count];
#pragma GCC unroll 2
            for (int n = 0; n < v.count; ++n) acc[n] = load_of(v, x + i + n * W, lanes);
            Element const* p = x + i;
            for (int64_t t = 1; t < taps; ++t) {
                p += step;
#pragma GCC unroll 2
                for (int n = 0; n < v.count; ++n) acc[n] = join_of<join>(acc[n], load_of(v, p + n * W, lanes));
            }
#pragma GCC unroll 2
            for (int n = 0; n < v.count; ++n) store_of(v, acc[n], y + i + n * W, lanes);
        });
}

/// The same for the windows of `rows` rows, each `step` below the other: what all of them see is joined once. At least
/// `rows` taps.
template <Join join, int rows>
void join_shared(Element const* x, int64_t step, int64_t taps, Element* y, int64_t y_row, int64_t count) {
    along(
        count, [&](auto v, int64_t i, int lanes) __attribute__((always_inline)) {
            Vec above[rows - 1][v.count], all[v.count], below[v.count];
            auto at = [&](int64_t tap, int n) __attribute__((always_inline)) {
                return load_of(v, x + i + tap * step + n * W, lanes);
            };
#pragma GCC unroll 2
            for (int n = 0; n < v.count; ++n) all[n] = at(rows - 1, n);
            for (int64_t t = rows; t < taps; ++t)
#pragma GCC unroll 2
                for (int n = 0; n < v.count; ++n) all[n] = join_of<join>(all[n], at(t, n));
#pragma GCC unroll 3
            for (int r = rows - 2; r >= 0; --r)
#pragma GCC unroll 2
                for (int n = 0; n < v.count; ++n)
                    above[r][n] = r == rows - 2 ? at(r, n) : join_of<join>(at(r, n), above[r + 1][n]);
#pragma GCC unroll 4
            for (int r = 0; r < rows; ++r)
#pragma GCC unroll 2
                for (int n = 0; n < v.count; ++n) {
                    if (r > 0) below[n] = r > 1 ? join_of<join>(below[n], at(taps + r - 1, n)) : at(taps, n);
                    Vec result = all[n];
                    if (r < rows - 1) result = join_of<join>(above[r][n], result);
                    if (r > 0) result = join_of<join>(result, below[n]);
                    store_of(v, result, y + r * y_row + i + n * W, lanes);
                }
        });
}

/// Of lines, behind whose ends whole vectors may be read: the first tap, `more` taps `step` apart and the one at
/// `last`.
struct ColumnTaps {
    Element const* line;
    int64_t rows, line_row;
    int64_t step, more, last;
    Element* y;
    int64_t y_row, count;
    Element const* scales;  ///< null: none
};

/// What a stride leaves of as many vectors.
template <int stride>
RG_SIMD Vec picked(Vec const* x) {
    if constexpr (stride == 2) return evens(x[0], x[1]);
    if constexpr (stride == 3) return every_third(x[0], x[1], x[2]);
    return x[0];
}

/// `n`: `more`, which -1 stands for a single tap; `kAny`: as it is there.
constexpr int kAny = -2;
template <Join join, int stride, int n>
[[gnu::noinline]] void join_columns(ColumnTaps const& taps) {
    ColumnTaps const t = taps;
    int64_t const more = n == kAny ? t.more : n;
    Element const* line = t.line;
    Element* y = t.y;
    for (int64_t row = 0; row < t.rows; ++row, line += t.line_row, y += t.y_row)
        along(
            t.count, [&](auto v, int64_t i, int lanes) __attribute__((always_inline)) {
                constexpr int kLoads = v.count * stride;
                Element const* p = line + i * stride;
                Vec acc[kLoads];
#pragma GCC unroll 6
                for (int m = 0; m < kLoads; ++m) {
                    acc[m] = Vec::load(p + m * W);
                    if (n != -1) acc[m] = join_of<join>(acc[m], Vec::load(p + t.last + m * W));
                }
#pragma GCC unroll 4
                for (int64_t k = 0; k < more; ++k) {
                    p += t.step;
#pragma GCC unroll 6
                    for (int m = 0; m < kLoads; ++m) acc[m] = join_of<join>(acc[m], Vec::load(p + m * W));
                }
#pragma GCC unroll 2
                for (int m = 0; m < v.count; ++m) {
                    Vec result = picked<stride>(acc + m * stride);
                    if (join == Join::Sum && t.scales) result = result * load_of(v, t.scales + i + m * W, lanes);
                    store_of(v, result, y + i + m * W, lanes);
                }
            });
}
template <Join join, int stride>
void join_columns(ColumnTaps const& t) {
    switch (t.more) {
        case -1:
            return join_columns<join, stride, -1>(t);
        case 0:
            return join_columns<join, stride, 0>(t);
        case 1:
            return join_columns<join, stride, 1>(t);
        case 3:
            return join_columns<join, stride, 3>(t);
        default:
            return join_columns<join, stride, kAny>(t);
    }
}

/// Lines of a job: which of the columns they hold, and memory for them.
struct Lines {
    int64_t col, cols;     ///< of the output
    int64_t width, size;   ///< elements that windows see, and between lines
    int64_t first, count;  ///< column of the input at `offset`, and how many follow
    int64_t offset, most;  ///< most: lines at a time
    Element *rows, *joined, *picked, *scales, *plane;

    Lines(Job const& j, PoolLinesPlan const& plan, int64_t from, Element* memory)
        : col(from), size(plan.line_size), most(plan.lines) {
        cols = j.out_cols - col < plan.columns ? j.out_cols - col : plan.columns;
        width = (cols - 1) * j.col_stride + (j.kernel_cols - 1) * j.col_dilation + 1;
        int64_t const start = col * j.col_stride - j.col_pad, end = start + width;
        first = start > 0 ? start : 0;
        count = (end < j.in_cols ? end : j.in_cols) - first;
        if (count < 0) count = 0;
        offset = count ? first - start : 0;
        rows = memory, joined = rows + most * size, picked = joined + most * size, scales = picked + size;
        plane = scales + size;
        // What windows see of the padding.
        Vec const nothing = Vec::set(j.maximum ? -kInf : 0);
        for (int64_t r = 0; r < most; ++r) {
            Element* line = rows + r * size;
            for (int64_t i = 0; i < offset; i += W) nothing.store(line + i);
            for (int64_t i = offset + count; i < width; i += W) nothing.store(line + i);
        }
    }
};

/// Lines to as many rows of the output, whose sums are scaled alike.
template <Join join>
void finish_lines(Job const& j, Lines const& l, int64_t line, int64_t rows, Element* y) {
    int64_t const step = j.col_dilation, taps = j.kernel_cols, stride = j.col_stride;
    Element* from = l.rows + line * l.size;
    ColumnTaps t{from, rows, l.size, step, taps - 2, (taps - 1) * step, y, j.out_cols, l.cols, l.scales};
    if (j.total) t.scales = nullptr;
    if (join != Join::Sum && taps > 5) {  // of two neighbours each
        for (int64_t r = 0; r < rows; ++r)
            join_taps<join>(from + r * l.size, step, 2, l.joined + r * l.size, l.width - step);
        t.line = l.joined, t.step = 2 * step, t.more = (taps + 1) / 2 - 2, t.last = (taps - 2) * step;
    }
    if (stride == 1) return join_columns<join, 1>(t);
    if (stride == 2) return join_columns<join, 2>(t);
    if (stride == 3) return join_columns<join, 3>(t);
    Element const *picked = l.picked, *scales = t.scales;
    t.y = l.picked, t.count = (l.cols - 1) * stride + 1, t.scales = nullptr, t.rows = 1;
    for (int64_t r = 0; r < rows; ++r, t.line += l.size, y += j.out_cols) {
        join_columns<join, 1>(t);
        if (join == Join::Sum && scales)
            for (int64_t i = 0; i < l.cols; ++i) y[i] = picked[i * stride] * scales[i];
        else
            for (int64_t i = 0; i < l.cols; ++i) y[i] = picked[i * stride];
    }
}

/// Rows that windows see: `x` at the first column of the lines.
struct SeenRows {
    Element const* x;
    int64_t step, first;
};
/// Makes lines of the windows of rows from `row` on, up to `left`, and returns of how many.
template <Join join>
int64_t join_rows(Job const& j, SeenRows const& seen, int64_t row, int64_t left, Lines const& l, Element* to) {
    int64_t const taps = j.kernel_rows, start = row * j.row_stride - j.row_pad, step = j.row_dilation * seen.step;
    Part const inside = taps_inside(start, j.row_dilation, taps, j.in_rows);
    int64_t const lines = j.planes ? inside.end - inside.first : 0;
    Element const* x = seen.x + (start + inside.first * j.row_dilation - seen.first) * seen.step;
    auto all_see = [&](int64_t rows) {
        return rows <= left && rows <= taps && start + (rows + taps - 2) * j.row_dilation < j.in_rows;
    };
    if (j.row_stride == j.row_dilation && start >= 0 && lines > 0) {
        if (all_see(4)) return join_shared<join, 4>(x, step, taps, to, l.size, l.count), 4;
        if (all_see(2)) return join_shared<join, 2>(x, step, taps, to, l.size, l.count), 2;
    }
    if (lines > 0)
        join_taps<join>(x, step, lines, to, l.count);
    else
        for (int64_t i = 0; i < l.count; i += W) Vec::set(j.maximum ? -kInf : 0).store(to + i);
    return 1;
}

/// How many rows of the window an average counts.
int64_t counted_rows(Job const& j, int64_t row) {
    int64_t const pad = j.count_padding ? j.row_pad : 0, end = j.count_padding ? j.row_pad_end : 0;
    Part const counted =
        taps_inside(row * j.row_stride - j.row_pad + pad, j.row_dilation, j.kernel_rows, j.in_rows + pad + end);
    return counted.end - counted.first;
}

/// Rows [band.first, band.last) of the output. A pass over some of them ends before the next one reads what it stored,
/// at other alignments.
template <Join join>
void finish_rows(Job const& j, Band const& band, Lines const& l, SeenRows const& seen) {
    bool const scales = join == Join::Sum && !j.total;
    for (int64_t row = band.first; row < band.last;) {
        int64_t const left = band.last - row, rows = left < l.most ? left : l.most;
        for (int64_t r = 0; r < rows;)
            r += join_rows<join>(j, seen, row + r, rows - r, l, l.rows + r * l.size + l.offset);
        for (int64_t r = 0, alike; r < rows; r += alike) {
            alike = rows - r;
            if (scales) {
                int64_t const counted = counted_rows(j, row + r);
                for (alike = 1; r + alike < rows && counted_rows(j, row + r + alike) == counted;) ++alike;
                for (int64_t i = 0; i < l.cols; i += W) {
                    int64_t const lanes = l.cols - i < W ? l.cols - i : W;
                    scale_of(j, row + r, counted, l.col + i, static_cast<int>(lanes)).store(l.scales + i);
                }
            }
            finish_lines<join>(j, l, r, alike, j.y + (row + r) * j.out_cols + l.col);
        }
        row += rows;
    }
}

/// The same with planes joined to one in front.
void finish_band(Job const& j, Band const& band, Lines const& l) {
    SeenRows seen{j.x + band.top * j.in_cols + l.first, j.in_cols, band.top};
    bool const whole = l.count == j.in_cols;
    if (j.planes > 1) {
        for (int64_t row = 0; row < (whole ? 1 : band.in_rows); ++row)
            (j.maximum ? join_taps<Join::Largest> : join_taps<Join::Sum>)(seen.x + row * j.in_cols, j.plane_step,
                                                                          j.planes, l.plane + row * l.count,
                                                                          whole ? band.in_rows * l.count : l.count);
        seen.x = l.plane, seen.step = l.count;
    }
    if (!j.maximum) return finish_rows<Join::Sum>(j, band, l, seen);
    bool const dense = seen.step == l.count;
    bool nan = false;
    for (int64_t row = 0; row < (dense ? 1 : band.in_rows) && !nan && j.planes > 0; ++row)
        nan = has_nan(seen.x + row * seen.step, dense ? band.in_rows * l.count : l.count);
    (nan ? finish_rows<Join::Largest> : finish_rows<Join::Numbers>)(j, band, l, seen);
}

void lines(Job const& j, PoolLinesPlan const& plan, Element* memory) {
    for (int64_t col = 0; col < j.out_cols; col += plan.columns) {
        Lines const l(j, plan, col, memory);
        for (int64_t row = j.row; row < j.row_end; row += plan.together)
            finish_band(j, band_of(j, row, plan.together), l);
    }
}

}  // namespace
}  // namespace refactor::kernel
