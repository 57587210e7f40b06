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

/// The largest, or the sum, of the taps; sums are multiplied by `scale`, or are left as they are if that is null. The
/// last of the vectors begins at `last`, and may overlap the one in front of it. `part`: it is the only one, of `lanes`
/// lanes.
template <bool Maximum, int vectors, bool part = false>
RG_SIMD void combined(Element const* x, Taps const& taps, Element const* scale, Element* y, int64_t last,
                      int lanes = W) {
    Vec acc[vectors];
    auto const at = [&](int v) { return v + 1 == vectors ? last : v * W; };
    auto const load = [&](Element const* p) { return part ? Vec::load_first(p, lanes) : Vec::load(p); };
#pragma GCC unroll 5
    for (int v = 0; v < vectors; ++v) acc[v] = Maximum ? Vec::set(-kInf) : Vec::zero();
    int64_t const shift = taps.phases ? 1 : 0;
    for (int64_t i = 0; i < taps.outer; ++i)
        for (int64_t k = 0; k < taps.inner; ++k) {
            auto step = k * taps.inner_step;
            auto const* p = x + i * taps.outer_step + (step & 1) * taps.phases + (step >> shift);
#pragma GCC unroll 5
            for (int v = 0; v < vectors; ++v) {
                Vec value = load(p + at(v));
                acc[v] = Maximum ? maximum(acc[v], value) : acc[v] + value;
            }
        }
#pragma GCC unroll 5
    for (int v = 0; v < vectors; ++v) {
        if (!Maximum && scale) acc[v] = acc[v] * load(scale + at(v));
        part ? acc[v].store_first(y + at(v), lanes) : acc[v].store(y + at(v));
    }
}
/// y[i] is made of the taps from x[i] on, which y is apart from. A maximum is NaN if one is.
template <bool Maximum>
void combined(Element const* x, Taps const& taps, Element const* scale, Element* y, int64_t count) {
    if (count < W) return combined<Maximum, 1, true>(x, taps, scale, y, 0, static_cast<int>(count));
    // At least one whole vector is left.
    for (; count >= 5 * W; count -= 4 * W, x += 4 * W, y += 4 * W) {
        combined<Maximum, 4>(x, taps, scale, y, 3 * W);
        if (scale) scale += 4 * W;
    }
    switch ((count + W - 1) / W) {
        case 1:
            return combined<Maximum, 1>(x, taps, scale, y, 0);
        case 2:
            return combined<Maximum, 2>(x, taps, scale, y, count - W);
        case 3:
            return combined<Maximum, 3>(x, taps, scale, y, count - W);
        case 4:
            return combined<Maximum, 4>(x, taps, scale, y, count - W);
        default:
            return combined<Maximum, 5>(x, taps, scale, y, count - W);
    }
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

/// Several rows at a time: what one pass stored is not read by the next, at other alignments, while it is on its way.
template <bool Maximum>
void separable_rows(Job const& j, int64_t lanes, Element* memory, int64_t lines, int64_t line_size) {
    int64_t const in_row = j.in_cols * lanes, out_row = j.out_cols * lanes, half = line_size / 2;
    bool const average = !Maximum && !j.total, strided = j.col_stride == 2;
    Element *phases = memory + lines * line_size, *after = strided ? phases + lines * line_size : phases;
    for (int64_t i = 0; i < lines * line_size; ++i) memory[i] = Maximum ? -kInf : 0;
    auto const inside = [&](int64_t row) {
        return Part(row * j.row_stride - j.row_pad, j.row_dilation, j.kernel_rows, j.in_rows);
    };
    Taps const along{1, 0, j.kernel_cols, j.col_dilation * lanes, strided ? half : 0};
    // `Scales` counts the columns at once, which only averages need.
    auto const rows_of = [&](Scales* scales) {
        for (int64_t first = j.row; first < j.row_end; first += lines) {
            int64_t const last = first + lines < j.row_end ? first + lines : j.row_end;
            Element* line = memory;
            for (int64_t row = first; row < last; ++row, line += line_size) {
                Part rows = inside(row);
                Element const* x = j.x + (row * j.row_stride - j.row_pad + rows.first * j.row_dilation) * in_row;
                combined<Maximum>(x, {j.planes, j.plane_step, rows.end - rows.first, j.row_dilation * in_row, 0},
                                  nullptr, line + j.col_pad * lanes, in_row);
            }
            if (strided)
                for (int64_t i = 0; i < (last - first) * line_size; i += line_size)
                    split_phases(memory + i, half, phases + i, phases + i + half);
            line = strided ? phases : memory;
            for (int64_t row = first; row < last; ++row, line += line_size)
                combined<Maximum>(line, along, scales ? scales->of_row(j, row, inside(row)) : nullptr,
                                  j.y + row * out_row, out_row);
        }
    };
    if (!average) return rows_of(nullptr);
    Scales scales(j, after);
    rows_of(&scales);
}
void separable(Job const& j, int64_t lanes, Element* memory, int64_t lines, int64_t line_size) {
    (j.maximum ? separable_rows<true> : separable_rows<false>)(j, lanes, memory, lines, line_size);
}

}  // namespace
}  // namespace refactor::kernel
