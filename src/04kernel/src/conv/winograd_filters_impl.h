#pragma once
// Include a `simd/vec_f64_*.h` first.
#include "conv/winograd_filters.h"

namespace refactor::kernel {
namespace {

/// out[i] = Σ g[i][k] in[k · step]. Where every point but 0 has its negative, their rows differ in the sign of odd
/// taps.
template <int taps, int products>
RG_SIMD void apply(FilterTransform const& t, Vec const* in, int step, Vec* out, int out_step) {
    auto g = [&](int i, int k) __attribute__((always_inline)) { return Vec::set(t.g[i][k]); };
    out[0] = g(0, 0) * in[0], out[(products - 1) * out_step] = in[(taps - 1) * step];
    constexpr bool pairs = products % 2 == 0;
#pragma GCC unroll 3
    for (int i = 1; i + 1 < products; i += pairs ? 2 : 1) {
        Vec even = g(i, 0) * in[0], odd = g(i, 1) * in[step];
#pragma GCC unroll 5
        for (int k = 2; k < taps; ++k) (k % 2 ? odd : even) = fma(g(i, k), in[k * step], k % 2 ? odd : even);
        out[i * out_step] = even + odd;
        if (pairs) out[(i + 1) * out_step] = even - odd;
    }
}

/// The same along an axis of a plane.
template <int taps, int products, bool strided>
RG_SIMD void apply_along(FilterTransform const& t, Vec const* in, int step, Vec* out, int out_step) {
    if constexpr (strided) {
        apply<2, products - 1>(t, in, 2 * step, out, out_step);
        out[(products - 1) * out_step] = in[step];
    } else {
        apply<taps, products>(t, in, step, out, out_step);
    }
}

template <int taps, int products, bool strided = false>
void transform_planes(FilterTransform const& t, float const* from, int64_t tap_step, float* to, int64_t product_step) {
    for (int half = 0; half < 2; ++half, from += Vec::width, to += Vec::width) {
        Vec g[taps * taps], rows[taps * products], u[products];
#pragma GCC unroll 9
        for (int k = 0; k < taps * taps; ++k) g[k] = Vec::load(from + k * tap_step);
#pragma GCC unroll 3
        for (int j = 0; j < taps; ++j) apply_along<taps, products, strided>(t, g + j, taps, rows + j, taps);
#pragma GCC unroll 8
        for (int i = 0; i < products; ++i) {
            apply_along<taps, products, strided>(t, rows + taps * i, 1, u, 1);
#pragma GCC unroll 8
            for (int j = 0; j < products; ++j) u[j].store(to + (i * products + j) * product_step);
        }
    }
}

template <int taps, int products>
void transform_lines(FilterTransform const& t, float const* from, int64_t tap_step, float* to, int64_t product_step) {
    for (int half = 0; half < 2; ++half, from += Vec::width, to += Vec::width) {
        Vec g[taps], u[products];
#pragma GCC unroll 7
        for (int k = 0; k < taps; ++k) g[k] = Vec::load(from + k * tap_step);
        apply<taps, products>(t, g, 1, u, 1);
#pragma GCC unroll 8
        for (int i = 0; i < products; ++i) u[i].store(to + i * product_step);
    }
}

RG_SIMD FilterFunction filters_of(WinogradForm const& form) {
    int64_t const outputs = form.tile[0];
    if (form.strided()) return outputs == 2 ? transform_planes<3, 4, true> : transform_planes<3, 6, true>;
    if (form.plane()) {
        if (form.piece[0] == 7) return transform_planes<7, 8>;
        if (form.piece[0] == 4) return transform_planes<4, 8>;
        if (form.piece[0] == 2) return transform_planes<2, 4>;
        if (form.piece[0] == 5) return outputs == 2 ? transform_planes<5, 6> : transform_planes<5, 8>;
        return outputs == 2 ? transform_planes<3, 4> : outputs == 4 ? transform_planes<3, 6> : transform_planes<3, 8>;
    }
    int64_t const taps = form.piece[0] * form.piece[1];
    if (taps == 2) return transform_lines<2, 6>;
    return taps == 3 ? transform_lines<3, 6> : taps == 4 ? transform_lines<4, 8> : transform_lines<5, 8>;
}

}  // namespace
}  // namespace refactor::kernel
