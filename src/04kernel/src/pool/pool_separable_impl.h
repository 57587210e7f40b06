#pragma once
#include "conv/window_impl.h"
#include "pool/pool_blocked.h"
#include "pool/pool_maximum.h"

namespace refactor::kernel {
namespace {

/// Elements that lie at multiples of two steps.
struct Taps {
    int64_t outer, outer_step, inner, inner_step;
};

template <int vectors>
RG_SIMD void largest(float const* x, Taps const& taps, float* y, int last) {
    Vec best[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) best[v] = Vec::set(-__builtin_inff());
    for (int64_t i = 0; i < taps.outer; ++i)
        for (int64_t k = 0; k < taps.inner; ++k) {
            auto const* p = x + i * taps.outer_step + k * taps.inner_step;
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v)
                best[v] = maximum(best[v], last < W ? Vec::load_first(p + v * W, last) : Vec::load(p + v * W));
        }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) last < W ? best[v].store_first(y + v * W, last) : best[v].store(y + v * W);
}
/// y[i] is the largest of the taps from x[i] on; NaN if one is.
void largest(float const* x, Taps const& taps, float* y, int64_t count) {
    int64_t i = 0;
    for (; i + 4 * W <= count; i += 4 * W) largest<4>(x + i, taps, y + i, W);
    for (; i + W <= count; i += W) largest<1>(x + i, taps, y + i, W);
    if (i < count) largest<1>(x + i, taps, y + i, static_cast<int>(count - i));
}

void separable_max(PoolJob const& j, int64_t lanes, float* line, int64_t line_floats) {
    int64_t const in_row = j.in_cols * lanes, out_row = j.out_cols * lanes;
    for (int64_t i = 0; i < line_floats; ++i) line[i] = -__builtin_inff();
    for (int64_t row = j.row; row < j.row_end; ++row) {
        int64_t start = row * j.row_stride - j.row_pad;
        Part rows(start, j.row_dilation, j.kernel_rows, j.in_rows);
        float const* first = j.x + (start + rows.first * j.row_dilation) * in_row;
        largest(first, {j.planes, j.plane_step, rows.end - rows.first, j.row_dilation * in_row},
                line + j.col_pad * lanes, in_row);
        largest(line, {1, 0, j.kernel_cols, j.col_dilation * lanes}, j.y + row * out_row, out_row);
    }
}

}  // namespace
}  // namespace refactor::kernel
