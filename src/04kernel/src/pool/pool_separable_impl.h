#pragma once
#include "conv/window_impl.h"
#include "pool/pool_blocked.h"
#include "pool/pool_maximum.h"

namespace refactor::kernel {
namespace {

using Element = Vec::Element;
using Job = PoolJobOf<Element>;

constexpr Element kInf = static_cast<Element>(__builtin_inf());

/// Elements that lie at multiples of two steps. With `phases`, those at odd distances are in a second row, `phases`
/// behind the first, which has those at even distances.
struct Taps {
    int64_t outer, outer_step, inner, inner_step, phases;
};

/// The largest, or the sum, of the taps; sums are multiplied by `scale`, or are left as they are if that is null.
template <bool Maximum, int vectors>
RG_SIMD void combined(Element const* x, Taps const& taps, Element const* scale, Element* y, int last) {
    Vec acc[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) acc[v] = Maximum ? Vec::set(-kInf) : Vec::zero();
    int64_t const shift = taps.phases ? 1 : 0;
    for (int64_t i = 0; i < taps.outer; ++i)
        for (int64_t k = 0; k < taps.inner; ++k) {
            auto at = k * taps.inner_step;
            auto const* p = x + i * taps.outer_step + (at & 1) * taps.phases + (shift ? at >> 1 : at);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                Vec value = last < W ? Vec::load_first(p + v * W, last) : Vec::load(p + v * W);
                acc[v] = Maximum ? maximum(acc[v], value) : acc[v] + value;
            }
        }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        if (!Maximum && scale)
            acc[v] = acc[v] * (last < W ? Vec::load_first(scale + v * W, last) : Vec::load(scale + v * W));
        last < W ? acc[v].store_first(y + v * W, last) : acc[v].store(y + v * W);
    }
}
/// y[i] is made of the taps from x[i] on. A maximum is NaN if one is.
template <bool Maximum>
void combined(Element const* x, Taps const& taps, Element const* scale, Element* y, int64_t count) {
    auto scale_at = [&](int64_t i) { return scale ? scale + i : nullptr; };
    int64_t i = 0;
    for (; i + 4 * W <= count; i += 4 * W) combined<Maximum, 4>(x + i, taps, scale_at(i), y + i, W);
    for (; i + W <= count; i += W) combined<Maximum, 1>(x + i, taps, scale_at(i), y + i, W);
    if (i < count) combined<Maximum, 1>(x + i, taps, scale_at(i), y + i, static_cast<int>(count - i));
}

void split_phases(Element const* __restrict x, int64_t pairs, Element* __restrict even, Element* __restrict odd) {
    for (int64_t i = 0; i < pairs; ++i) even[i] = x[2 * i], odd[i] = x[2 * i + 1];
}

/// What averages are multiplied by, in rows of one number of counted rows.
struct Scales {
    Element *columns, *values;  ///< [out_cols]: counted columns; the factors
    int64_t rows = -1;

    Scales(Job const& j, Element* memory) : columns(memory), values(memory + j.out_cols) {
        for (int64_t col = 0; col < j.out_cols; ++col) {
            Part inside(col * j.col_stride - j.col_pad, j.col_dilation, j.kernel_cols, j.in_cols);
            Part padded(col * j.col_stride, j.col_dilation, j.kernel_cols, j.in_cols + j.col_pad + j.col_pad_end);
            columns[col] =
                static_cast<Element>(j.count_padding ? padded.end - padded.first : inside.end - inside.first);
        }
    }
    Element const* of_row(Job const& j, int64_t row, Part const& inside) {
        Part padded(row * j.row_stride, j.row_dilation, j.kernel_rows, j.in_rows + j.row_pad + j.row_pad_end);
        int64_t now = j.count_padding ? padded.end - padded.first : inside.end - inside.first;
        if (now == rows) return values;
        rows = now;
        auto const counted = static_cast<Element>(j.counted_planes * rows);
        for (int64_t col = 0; col < j.out_cols; ++col) {
            Element divisor = counted * columns[col];
            values[col] = divisor > 0 ? 1 / divisor : 0;
        }
        return values;
    }
};

template <bool Maximum>
void separable_rows(Job const& j, int64_t lanes, Element* line, int64_t line_size) {
    int64_t const in_row = j.in_cols * lanes, out_row = j.out_cols * lanes, half = line_size / 2;
    bool const average = !Maximum && !j.total, strided = j.col_stride == 2;
    Element *phases = line + line_size, *after = strided ? phases + line_size : phases;
    for (int64_t i = 0; i < line_size; ++i) line[i] = Maximum ? -kInf : 0;
    // `Scales` counts the columns at once, which only averages need.
    auto const rows_of = [&](Scales* scales) {
        for (int64_t row = j.row; row < j.row_end; ++row) {
            int64_t start = row * j.row_stride - j.row_pad;
            Part rows(start, j.row_dilation, j.kernel_rows, j.in_rows);
            Element const* first = j.x + (start + rows.first * j.row_dilation) * in_row;
            combined<Maximum>(first, {j.planes, j.plane_step, rows.end - rows.first, j.row_dilation * in_row, 0},
                              nullptr, line + j.col_pad * lanes, in_row);
            if (strided) split_phases(line, half, phases, phases + half);
            combined<Maximum>(strided ? phases : line,
                              {1, 0, j.kernel_cols, j.col_dilation * lanes, strided ? half : 0},
                              scales ? scales->of_row(j, row, rows) : nullptr, j.y + row * out_row, out_row);
        }
    };
    if (!average) return rows_of(nullptr);
    Scales scales(j, after);
    rows_of(&scales);
}
void separable(Job const& j, int64_t lanes, Element* line, int64_t line_size) {
    j.maximum ? separable_rows<true>(j, lanes, line, line_size) : separable_rows<false>(j, lanes, line, line_size);
}

}  // namespace
}  // namespace refactor::kernel
