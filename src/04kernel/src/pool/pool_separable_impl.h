#pragma once
#include "pool/pool_window.h"

namespace refactor::kernel {
namespace {

/// The largest of `outer` times `inner` elements. The last of the vectors begins at `last`, and may overlap the one in
/// front of it. `part`: it is the only one, of `lanes` lanes.
struct Taps {
    int64_t outer, outer_step, inner, inner_step;
};

template <int vectors, bool part = false>
RG_SIMD void largest(Element const* x, Taps const& taps, Element* y, int64_t last, int lanes = W) {
    Vec acc[vectors];
    auto const at = [&](int v) { return v + 1 == vectors ? last : v * W; };
    auto const load = [&](Element const* p) { return part ? Vec::load_first(p, lanes) : Vec::load(p); };
#pragma GCC unroll 5
    for (int v = 0; v < vectors; ++v) acc[v] = Vec::set(-kInf);
    for (int64_t i = 0; i < taps.outer; ++i)
        for (int64_t k = 0; k < taps.inner; ++k) {
            auto const* p = x + i * taps.outer_step + k * taps.inner_step;
#pragma GCC unroll 5
            for (int v = 0; v < vectors; ++v) acc[v] = maximum(acc[v], load(p + at(v)));
        }
#pragma GCC unroll 5
    for (int v = 0; v < vectors; ++v) part ? acc[v].store_first(y + at(v), lanes) : acc[v].store(y + at(v));
}
/// y[i] is made of the taps from x[i] on, which y is apart from. A maximum is NaN if one is.
void largest(Element const* x, Taps const& taps, Element* y, int64_t count) {
    if (count < W) return largest<1, true>(x, taps, y, 0, static_cast<int>(count));
    // At least one whole vector is left.
    for (; count >= 5 * W; count -= 4 * W, x += 4 * W, y += 4 * W) largest<4>(x, taps, y, 3 * W);
    switch ((count + W - 1) / W) {
        case 1:
            return largest<1>(x, taps, y, 0);
        case 2:
            return largest<2>(x, taps, y, count - W);
        case 3:
            return largest<3>(x, taps, y, count - W);
        case 4:
            return largest<4>(x, taps, y, count - W);
        default:
            return largest<5>(x, taps, y, count - W);
    }
}

/// Several rows at a time: what one pass stored is not read by the next, at other alignments, while it is on its way.
void separable(Job const& j, int64_t lanes, Element* memory, int64_t lines, int64_t line_size) {
    int64_t const in_row = j.in_cols * lanes, out_row = j.out_cols * lanes;
    for (int64_t i = 0; i < lines * line_size; ++i) memory[i] = -kInf;
    for (int64_t first = j.row; first < j.row_end; first += lines) {
        int64_t const last = first + lines < j.row_end ? first + lines : j.row_end;
        Element* line = memory;
        for (int64_t row = first; row < last; ++row, line += line_size) {
            int64_t const start = row * j.row_stride - j.row_pad;
            Part rows = taps_inside(start, j.row_dilation, j.kernel_rows, j.in_rows);
            Element const* x = j.x + (start + rows.first * j.row_dilation) * in_row;
            largest(x, {j.planes, j.plane_step, rows.end - rows.first, j.row_dilation * in_row},
                    line + j.col_pad * lanes, in_row);
        }
        line = memory;
        for (int64_t row = first; row < last; ++row, line += line_size)
            largest(line, {1, 0, j.kernel_cols, j.col_dilation * lanes}, j.y + row * out_row, out_row);
    }
}

}  // namespace
}  // namespace refactor::kernel
