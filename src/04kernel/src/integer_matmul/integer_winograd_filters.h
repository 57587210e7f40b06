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

/// Filters of one input channel and a vector of columns, whose sums are added to. `w`: their elements, a panel apart.
RG_SIMD void transform_filter(uint8_t const* w, bool is_signed, Lanes zero, Lanes& sum, Lanes (&u)[36]) {
    Lanes g[9], lines[3][6];
    Lanes const one = Lanes::set(1);
#pragma GCC unroll 9
    for (int i = 0; i < 9; ++i) {
        g[i] = (is_signed ? Lanes::load_signed(w + i * kPanel) : Lanes::load_bytes(w + i * kPanel)) - zero;
        Lanes sign = g[i] >> 31;
        sum = sum + g[i] * (sign + sign + one);
    }
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

bool winograd_filters(IntegerFilters const& t) {
    // Pairs of channels whose products are gathered, so that they are stored as whole cache lines: products are far
    // apart, and L1 could not keep a line of each.
    constexpr int64_t kPairs = 128 / kPanel;
    alignas(64) int32_t some[36 * kPairs * kPanel];
    Lanes const half = Lanes::set(0x8000);
    Lanes beyond = Lanes::zero();
    for (int v = 0; v < kVectors; ++v) Lanes::zero().store(t.sums + v * kWidth);
    for (int64_t d = 0; d < t.depth; d += kPairs) {
        int64_t pairs = t.depth - d < kPairs ? t.depth - d : kPairs, line = pairs * kPanel;
        for (int64_t i = 0; i < pairs; ++i)
            for (int v = 0; v < kVectors; ++v) {
                uint8_t const* w = t.w + (d + i) * 18 * kPanel + v * kWidth;
                Lanes zero = Lanes::load(t.zeros + v * kWidth), sum = Lanes::load(t.sums + v * kWidth);
                Lanes low[36], high[36];
                transform_filter(w, t.is_signed, zero, sum, low);
                transform_filter(w + 9 * kPanel, t.is_signed, zero, sum, high);
                sum.store(t.sums + v * kWidth);
#pragma GCC unroll 36
                for (int p = 0; p < 36; ++p) {
                    beyond = beyond | ((low[p] + half) >> 16) | ((high[p] + half) >> 16);
                    // A negative low word borrows from the high one.
                    (((high[p] - (low[p] >> 31)) << 16) + low[p]).store(some + p * line + i * kPanel + v * kWidth);
                }
            }
        for (int64_t p = 0; p < 36; ++p)
            for (int64_t i = 0; i < line; i += kWidth)
                Lanes::load(some + p * line + i).store(t.u + (p * t.depth + d) * kPanel + i);
    }
    alignas(64) int32_t bits[kWidth];
    beyond.store(bits);
    int32_t any = 0;
    for (int32_t lane : bits) any |= lane;
    return any == 0;
}

}  // namespace
}  // namespace refactor::kernel
