#pragma once
// Filters of Winograd F(4×4, 3×3) in integers; include behind `integer_winograd_impl.h`.

namespace refactor::kernel {
namespace {

RG_SIMD Lanes six_times(Lanes a) { return (a + a + a) << 1; }

/// G' along one axis.
RG_SIMD void spread_filter(Lanes a, Lanes b, Lanes c, Lanes (&u)[6]) {
    Lanes outer = four_times(a + c), middle = four_times(b), wide = a + four_times(c), twice = b + b;
    u[0] = six_times(a);
    u[1] = Lanes::zero() - (outer + middle), u[2] = middle - outer;
    u[3] = wide + twice, u[4] = wide - twice;
    u[5] = six_times(c);
}

RG_SIMD Lanes load_element(uint8_t const* p, bool is_signed) {
    return is_signed ? Lanes::load_signed(p) : Lanes::load_bytes(p);
}

/// Filters of one input channel and a vector of columns. `w`: their elements, a panel apart.
RG_SIMD void transform_filter(uint8_t const* w, bool is_signed, Lanes zero, Lanes (&u)[36]) {
    Lanes g[9], lines[3][6];
#pragma GCC unroll 9
    for (int i = 0; i < 9; ++i) g[i] = load_element(w + i * kPanel, is_signed) - zero;
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) spread_filter(g[3 * i], g[3 * i + 1], g[3 * i + 2], lines[i]);
#pragma GCC unroll 6
    for (int x = 0; x < 6; ++x) {
        Lanes column[6];
        spread_filter(lines[0][x], lines[1][x], lines[2][x], column);
#pragma GCC unroll 6
        for (int i = 0; i < 6; ++i) u[i * 6 + x] = column[i];
    }
}

void winograd_filters(IntegerFilters const& t) {
    // Pairs of channels whose products are gathered, so that they are stored as whole cache lines: products are far
    // apart, and L1 could not keep a line of each.
    constexpr int64_t kPairs = 128 / kPanel;
    alignas(64) int32_t some[36 * kPairs * kPanel];
    for (int64_t d = 0; d < t.depth; d += kPairs) {
        int64_t pairs = t.depth - d < kPairs ? t.depth - d : kPairs, line = pairs * kPanel;
        for (int64_t i = 0; i < pairs; ++i)
            for (int v = 0; v < kVectors; ++v) {
                uint8_t const* w = t.w + (d + i) * 18 * kPanel + v * kWidth;
                Lanes zero = load_element(t.zeros + v * kWidth, t.is_signed), low[36], high[36];
                transform_filter(w, t.is_signed, zero, low);
                transform_filter(w + 9 * kPanel, t.is_signed, zero, high);
#pragma GCC unroll 36
                for (int p = 0; p < 36; ++p)
                    // A negative low word borrows from the high one.
                    (((high[p] - (low[p] >> 31)) << 16) + low[p]).store(some + p * line + i * kPanel + v * kWidth);
            }
        for (int64_t p = 0; p < 36; ++p)
            for (int64_t i = 0; i < line; i += kWidth)
                Lanes::load(some + p * line + i).store(t.u + (p * t.depth + d) * kPanel + i);
    }
}

}  // namespace
}  // namespace refactor::kernel
