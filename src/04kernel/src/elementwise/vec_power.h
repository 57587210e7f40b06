#pragma once
// Powers of floats; include a `simd/vec_*.h` and `simd/math.h` first. Internal linkage.
//
// x^y is 2^(y log2 x). An exponent near 128 leaves 2^-24 of its last factor for rounding, so the logarithm is a sum of
// two floats (T. J. Dekker, "A floating-point technique for extending the available precision", 1971).

namespace refactor::kernel::elementwise {
namespace {

/// hi + lo, where lo is at most half a unit in the last place of hi, or a little more.
struct TwoFloats {
    Vec hi, lo;
};
/// a + b for |a| >= |b| or a = 0.
RG_SIMD TwoFloats sum_of_ordered(Vec a, Vec b) {
    Vec hi = a + b;
    return {hi, b - (hi - a)};
}
RG_SIMD TwoFloats product(Vec a, Vec b) {
    Vec hi = a * b;
    return {hi, fma(a, b, -hi)};
}
RG_SIMD TwoFloats product(TwoFloats a, TwoFloats b) {
    TwoFloats p = product(a.hi, b.hi);
    return {p.hi, p.lo + fma(a.hi, b.lo, a.lo * b.hi)};
}

/// log2 of positive finite floats: 2 / ln 2 (s + s³/3 + s⁵/5 + …) with s = (m - 1) / (m + 1), |s| < 0.172, and the
/// exponent. All but s⁵ and what follows in two floats.
RG_SIMD TwoFloats log2_of(Vec x) {
    Vec one = Vec::set(1.f), e = Vec::zero(), m = split2(x, e), f = m - one;
    TwoFloats g = sum_of_ordered(one, m);
    Vec r = one / g.hi, quotient = f * r;
    TwoFloats s{quotient, fnma(quotient, g.lo, fnma(quotient, g.hi, f)) * r};
    TwoFloats z = product(s, s), third = product(z, {Vec::set(0.333333343f), Vec::set(-9.93410776e-9f)});
    Vec p = Vec::set(1.f / 11);
    p = fma(p, z.hi, Vec::set(1.f / 9));
    p = fma(p, z.hi, Vec::set(1.f / 7));
    p = fma(p, z.hi, Vec::set(1.f / 5));
    TwoFloats series = sum_of_ordered(one, third.hi);
    series.lo = fma(p, z.hi * z.hi, series.lo + third.lo);
    TwoFloats y = product(product(s, series), {Vec::set(2.88539004f), Vec::set(3.851926e-8f)});
    TwoFloats whole = sum_of_ordered(e, y.hi);
    return {whole.hi, whole.lo + y.lo};
}

/// x^y as std::pow, special values included, at most 1.5 ulp.
RG_SIMD Vec power(Vec x, Vec y) {
    constexpr float kFar = 160.f;  // beyond where results are zero or infinity
    Vec const inf = Vec::set(__builtin_inff()), one = Vec::set(1.f), zero = Vec::zero(), half = Vec::set(0.5f);
    Vec a = abs(x);
    TwoFloats log2 = log2_of(a);
    log2.hi = select(a == zero, -inf, select(a == inf, inf, log2.hi));
    TwoFloats t = product(y, log2.hi);
    t.lo = fma(y, log2.lo, t.lo);
    // max and min return their second operand for NaN.
    Vec near = min(Vec::set(kFar), max(Vec::set(-kFar), t.hi)), n = round(near);
    Vec rest = (near - n) + select(abs(t.hi) < Vec::set(kFar), t.lo, zero);
    Vec result = scale2(exp_excess_of_remainder(rest * Vec::set(0.693147181f)) + one, n);

    Vec halves = y * half;
    Mask is_whole = round(y) == y, is_odd = is_whole & (floor(halves) < halves);
    Vec nan = Vec::set(__builtin_nanf(""));
    Vec of_negative = select(is_odd, -result, select(is_whole | (a == zero) | (a == inf), result, nan));
    result = select(copysign(one, x) < zero, of_negative, result);
    result = select(is_nan(x) | is_nan(y), x + y, result);
    return select((y == zero) | (x == one) | ((a == one) & (abs(y) == inf)), one, result);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
