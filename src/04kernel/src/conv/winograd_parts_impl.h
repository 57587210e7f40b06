#pragma once
#include "conv/winograd.h"
#include "simd/vec.h"

// What the transforms of planes and of lines share.

namespace refactor::kernel {
namespace {

/// Bᵀ d with the points 0, ±1, ∞.
RG_SIMD void input_1d(Vec const (&d)[4], Vec (&t)[4]) {
    t[0] = d[2] - d[0];
    t[1] = d[1] + d[2], t[2] = d[2] - d[1];
    t[3] = d[3] - d[1];
}

/// Aᵀ m for two or three outputs.
template <int outputs>
RG_SIMD void output_1d(Vec const (&m)[4], Vec (&y)[outputs]) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2];
    if constexpr (outputs == 3) y[2] = m[1] + m[2];
    y[outputs - 1] = y[outputs - 1] + m[3];
}

/// Bᵀ d with the points 0, ±1, ±2, ∞.
RG_SIMD void input_1d(Vec const (&d)[6], Vec (&t)[6]) {
    Vec two = Vec::set(2.f), four = Vec::set(4.f), five = Vec::set(5.f);
    Vec a = fnma(four, d[2], d[4]), b = fnma(four, d[1], d[3]), c = d[4] - d[2], e = d[3] - d[1];
    t[0] = fma(four, d[0], fnma(five, d[2], d[4]));
    t[1] = a + b;
    t[2] = a - b;
    t[3] = fma(two, e, c);
    t[4] = fnma(two, e, c);
    t[5] = fma(four, d[1], fnma(five, d[3], d[5]));
}

/// Aᵀ m for two, four or five outputs.
template <int outputs>
RG_SIMD void output_1d(Vec const (&m)[6], Vec (&y)[outputs]) {
    Vec s1 = m[1] + m[2], s2 = m[3] + m[4], d1 = m[1] - m[2], d2 = m[3] - m[4];
    y[0] = m[0] + s1 + s2;
    y[1] = fma(Vec::set(2.f), d2, d1);
    if constexpr (outputs >= 4) {
        y[2] = fma(Vec::set(4.f), s2, s1);
        y[3] = fma(Vec::set(8.f), d2, d1);
    }
    if constexpr (outputs == 5) y[4] = fma(Vec::set(16.f), s2, s1);
    y[outputs - 1] = y[outputs - 1] + m[5];
}

/// Bᵀ d with the points 0, ±1, ±2, ±1/2, ∞.
RG_SIMD void input_1d(Vec const (&d)[8], Vec (&t)[8]) {
    Vec quarters = Vec::set(5.25f), half = Vec::set(0.5f), two = Vec::set(2.f);
    Vec a = fnma(Vec::set(4.25f), d[4], d[2] + d[6]), b = fnma(Vec::set(4.25f), d[3], d[1] + d[5]);
    Vec c = fma(Vec::set(0.25f), d[2], fnma(Vec::set(1.25f), d[4], d[6]));
    Vec e = fma(half, d[1], fnma(Vec::set(2.5f), d[3], two * d[5]));
    Vec f = fma(Vec::set(4.f), d[2], fnma(Vec::set(5.f), d[4], d[6]));
    Vec g = fma(two, d[1], fnma(Vec::set(2.5f), d[3], half * d[5]));
    t[0] = fma(quarters, d[4] - d[2], d[0] - d[6]);
    t[1] = a + b, t[2] = a - b;
    t[3] = c + e, t[4] = c - e;
    t[5] = f + g, t[6] = f - g;
    t[7] = fma(quarters, d[3] - d[5], d[7] - d[1]);
}

/// Aᵀ m for two, four, five or six outputs.
template <int outputs>
RG_SIMD void output_1d(Vec const (&m)[8], Vec (&y)[outputs]) {
    Vec s1 = m[1] + m[2], s2 = m[3] + m[4], s3 = m[5] + m[6], d1 = m[1] - m[2], d2 = m[3] - m[4], d3 = m[5] - m[6];
    y[0] = (m[0] + s1) + (s2 + s3);
    y[1] = fma(Vec::set(2.f), d2, fma(Vec::set(0.5f), d3, d1));
    if constexpr (outputs >= 4) {
        y[2] = fma(Vec::set(4.f), s2, fma(Vec::set(0.25f), s3, s1));
        y[3] = fma(Vec::set(8.f), d2, fma(Vec::set(0.125f), d3, d1));
    }
    if constexpr (outputs >= 5) y[4] = fma(Vec::set(16.f), s2, fma(Vec::set(0.0625f), s3, s1));
    if constexpr (outputs == 6) y[5] = fma(Vec::set(32.f), d2, fma(Vec::set(0.03125f), d3, d1));
    y[outputs - 1] = y[outputs - 1] + m[7];
}

/// Bᵀ of the outer taps of a stride of 2 for the even inputs, with the points 0, 1, ∞; then the odd ones.
RG_SIMD void input_1d(Vec const (&d)[5], Vec (&t)[5]) {
    t[0] = d[2] - d[0];
    t[1] = d[2];
    t[2] = d[4] - d[2];
    t[3] = d[1], t[4] = d[3];
}

/// Aᵀ m, and what odd inputs add.
RG_SIMD void output_1d(Vec const (&m)[5], Vec (&y)[2]) {
    y[0] = m[0] + m[1] + m[3];
    y[1] = m[1] + m[2] + m[4];
}

/// The same with the points 0, ±1, 2, ∞.
RG_SIMD void input_1d(Vec const (&d)[9], Vec (&t)[9]) {
    Vec two = Vec::set(2.f);
    Vec a = d[6] - d[2], b = d[6] - d[4];
    t[0] = fma(two, d[0] - d[4], a);
    t[1] = fnma(two, d[2], b);
    t[2] = fma(two, d[2] - d[4], b);
    t[3] = a;
    t[4] = fnma(two, a, d[8] - d[4]);
    t[5] = d[1], t[6] = d[3], t[7] = d[5], t[8] = d[7];
}

/// Aᵀ m, and what odd inputs add.
RG_SIMD void output_1d(Vec const (&m)[9], Vec (&y)[4]) {
    Vec s = m[1] + m[2], d = m[1] - m[2];
    y[0] = m[0] + s + m[3] + m[5];
    y[1] = fma(Vec::set(2.f), m[3], d) + m[6];
    y[2] = fma(Vec::set(4.f), m[3], s) + m[7];
    y[3] = fma(Vec::set(8.f), m[3], d) + (m[4] + m[8]);
}

/// First row (column) of outputs of a tile: with a dilation d, every d-th is one of d phases.
template <int outputs>
RG_SIMD int64_t first_of(int64_t tile, int64_t phase_tiles, int64_t dilation) {
    if (dilation == 1) return tile * outputs;
    return tile / phase_tiles + tile % phase_tiles * outputs * dilation;
}
/// Rows (columns) [begin, end) of a tile that lie inside the output: the first is `first`, others a step apart.
template <int outputs>
struct Inside {
    int64_t begin, end;

    RG_SIMD Inside(int64_t first, int64_t step, int64_t size) {
        end = size - first;
        if (step > 1) end = (end + step - 1) / step;
        begin = first < 0 ? (step - 1 - first) / step : 0;
        if (end > outputs) end = outputs;
        if (begin > end) begin = end;
    }
    RG_SIMD bool whole() const { return begin == 0 && end == outputs; }
};

/// Position of a tile.
struct Place {
    int64_t image, plane, row, col;
    Place(WinogradJob const& j, int64_t tile) : row(tile / j.tile_cols % j.tile_rows), col(tile % j.tile_cols) {
        int64_t planes = tile / (j.tile_rows * j.tile_cols);
        image = planes / j.out_planes, plane = planes % j.out_planes;
    }
    /// Moves on by `tiles`, of which all but the last end before the row does.
    void next(WinogradJob const& j, int64_t tiles = 1) {
        col += tiles;
        if (col < j.tile_cols) return;
        col = 0;
        if (++row < j.tile_rows) return;
        row = 0;
        if (++plane == j.out_planes) plane = 0, ++image;
    }
};

}  // namespace
}  // namespace refactor::kernel
