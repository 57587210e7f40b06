#pragma once
#include "conv/winograd.h"
#include "simd/vec.h"

// What the transforms of planes and of lines share.

namespace refactor::kernel {
namespace {

/// Bᵀ d.
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

/// Aᵀ m.
RG_SIMD void output_1d(Vec const (&m)[6], Vec (&y)[4]) {
    Vec s1 = m[1] + m[2], s2 = m[3] + m[4], d1 = m[1] - m[2], d2 = m[3] - m[4];
    y[0] = m[0] + s1 + s2;
    y[1] = fma(Vec::set(2.f), d2, d1);
    y[2] = fma(Vec::set(4.f), s2, s1);
    y[3] = fma(Vec::set(8.f), d2, d1) + m[5];
}

/// Position of a tile.
struct Place {
    int64_t image, plane, row, col;
    Place(WinogradJob const& j, int64_t tile) : row(tile / j.tile_cols % j.tile_rows), col(tile % j.tile_cols) {
        int64_t planes = tile / (j.tile_rows * j.tile_cols);
        image = planes / j.out_planes, plane = planes % j.out_planes;
    }
    void next(WinogradJob const& j) {
        if (++col < j.tile_cols) return;
        col = 0;
        if (++row < j.tile_rows) return;
        row = 0;
        if (++plane == j.out_planes) plane = 0, ++image;
    }
};

}  // namespace
}  // namespace refactor::kernel
