#pragma once
#include "simd/vec.h"
//
#include "simd/pack.h"

// Elementary functions on `Vec`. Largest errors over all floats are
// measured against double precision by `math_test.cc`, in units in the last place of the result.

namespace refactor::kernel {
namespace {

/// e^r - 1 for |r| at most a little over ln 2 / 2, off by 3e-9 of e^r: a polynomial of degree 6 by weighted least
/// squares, each coefficient rounded before the next, in two halves for a shorter chain.
template <class V>
RG_SIMD V exp_excess_of_remainder(V r) {
    V z = r * r;
    V low = fma(V::set(0.1666652113f), r, V::set(0.4999999404f));
    V high = fma(V::set(0.00836867746f), r, V::set(0.04166826606f));
    high = fma(V::set(0.001382073155f), z, high);
    return fma(fma(high, z, low), z, r);
}

/// e^x, at most 1.1 ulp for normal results. Overflows to infinity above 88.72, underflows to zero; NaN stays NaN.
/// Reduction x = n ln 2 + r with a two-part ln 2; adding 1.5 · 2^23 rounds to an integer in the low bits.
template <class V>
RG_SIMD V exp(V x) {
    // max and min return their second operand for NaN.
    x = min(V::set(89.f), max(V::set(-104.f), x));
    V biased = fma(x, V::set(1.44269504f), V::set(12582912.f + 254.f));
    V n = biased - V::set(12582912.f + 254.f);
    V r = fnma(n, V::set(0.693359375f), x);
    r = fnma(n, V::set(-2.12194440e-4f), r);
    return scale2_of_low_bits(exp_excess_of_remainder(r) + V::set(1.f), biased, n);
}

/// e^x for x <= 0, at most 1.1 ulp; 0 below about -87.7 (2^-126.5); NaN stays NaN. Adding 1.5 · 2^23 rounds to an
/// integer in the low bits, from where it becomes the exponent: about half the instructions of `exp` without AVX-512.
RG_SIMD Vec exp_of_negative(Vec x) {
    x = max(Vec::set(-88.f), x);
    Vec biased = fma(x, Vec::set(1.44269504f), Vec::set(12582912.f + 127.f));
    Vec n = biased - Vec::set(12582912.f + 127.f);
    Vec r = fnma(n, Vec::set(0.693359375f), x);
    r = fnma(n, Vec::set(-2.12194440e-4f), r);
    return (exp_excess_of_remainder(r) + Vec::set(1.f)) * power_of_low_bits(biased);
}

/// 2^x for x <= 0, at most 2.1 ulp; 0 below about -126; NaN stays NaN. For scores, which have larger errors of their
/// own: a polynomial of degree 5 (largest relative error 9.2e-8, fitted by weighted least squares), two thirds of the
/// instructions of `exp_of_negative`, or half where powers need not be made of bits.
template <class V>
RG_SIMD V exp2_of_negative(V x) {
    V f, biased;
    if constexpr (V::scales) {
        f = from_nearest(x);
    } else {
        x = max(V::set(-127.f), x);
        biased = x + V::set(12582912.f + 127.f);
        f = x - (biased - V::set(12582912.f + 127.f));
    }
    V p = V::set(1.326472731e-3f);
    p = fma(p, f, V::set(9.671512991e-3f));
    p = fma(p, f, V::set(5.550733581e-2f));
    p = fma(p, f, V::set(2.402224243e-1f));
    p = fma(p, f, V::set(6.931470037e-1f));
    p = fma(p, f, V::set(1.f));
    if constexpr (V::scales)
        return scale2_unless_less(p, x - f, x, V::set(-126.f));
    else
        return p * power_of_low_bits(biased);
}

/// Natural logarithm, at most 1.1 ulp. log(0) = -inf, log(negative) = NaN, log(inf) = inf. (Cephes logf.)
RG_SIMD Vec log(Vec x) {
    Vec e = Vec::zero();
    Vec m = split2(x, e) - Vec::set(1.f), z = m * m;
    Vec p = Vec::set(7.0376836292e-2f);
    p = fma(p, m, Vec::set(-1.1514610310e-1f));
    p = fma(p, m, Vec::set(1.1676998740e-1f));
    p = fma(p, m, Vec::set(-1.2420140846e-1f));
    p = fma(p, m, Vec::set(1.4249322787e-1f));
    p = fma(p, m, Vec::set(-1.6668057665e-1f));
    p = fma(p, m, Vec::set(2.0000714765e-1f));
    p = fma(p, m, Vec::set(-2.4999993993e-1f));
    p = fma(p, m, Vec::set(3.3333331174e-1f));
    Vec y = fma(p * m, z, e * Vec::set(-2.12194440e-4f));
    y = fma(z, Vec::set(-0.5f), y);
    y = fma(e, Vec::set(0.693359375f), m + y);
    Vec inf = Vec::set(__builtin_inff());
    y = select(x == inf, inf, y);
    y = select(x == Vec::zero(), -inf, y);
    return select((x < Vec::zero()) | is_nan(x), Vec::set(__builtin_nanf("")), y);
}

/// 1 / (1 + e^-x), at most 2.5 ulp for normal results; 0 below -88. As 1 / ((1 + 2^n) + 2^n (e^r - 1)), whose second
/// sum is the only one that rounds where it counts.
template <class V>
RG_SIMD V sigmoid(V x) {
    V t = min(V::set(88.f), max(V::set(-88.f), x));
    V biased = fma(t, V::set(-1.44269504f), V::set(12582912.f + 127.f));
    V n = biased - V::set(12582912.f + 127.f);
    V r = fnma(n, V::set(0.693359375f), V::set(0.f) - t);
    r = fnma(n, V::set(-2.12194440e-4f), r);
    V power = power_of_low_bits(biased), one = V::set(1.f);
    return zero_where_less(one / fma(exp_excess_of_remainder(r), power, one + power), x, V::set(-88.f));
}

/// Hyperbolic tangent, at most 2.5 ulp: -k / (k + 2) of k = e^(-2 |x|) - 1, which is 2^n (e^2h - 1) + (2^n - 1), so
/// that nothing is lost near 0, where n is 0. (e^2h - 1) / 2 is h (1 + h …) to degree 6, off by 2e-8 of itself. Small
/// ln 2 needs no second part: at 9.1, from where the result is 1, n is -26, and the error counts the less the larger -n
/// is.
template <class V>
RG_SIMD V tanh(V x) {
    V sign = V::set(-0.f), u = max(V::set(-9.1f), bit_or(x, sign));
    V biased = fma(u, V::set(2.88539008f), V::set(12582912.f + 127.f));
    V n = biased - V::set(12582912.f + 127.f);
    V h = fnma(n, V::set(0.34657359f), u);
    V p = V::set(0.04438613355f);
    p = fma(p, h, V::set(0.1338602006f));
    p = fma(p, h, V::set(0.3333394825f));
    p = fma(p, h, V::set(0.6666618586f));
    p = fma(p, h, V::set(0.9999999404f));
    p = fma(p, h * h, h);
    V power = power_of_low_bits(biased), half = V::set(0.5f);
    V k = fnma(p, power, fnma(power, half, half));
    return bit_or(k / (V::set(1.f) - k), bit_and(x, sign));  // -0 stays -0
}

RG_SIMD Vec hard_sigmoid(Vec x, Vec alpha, Vec beta) {
    return min(Vec::set(1.f), max(Vec::zero(), fma(x, alpha, beta)));
}

}  // namespace
}  // namespace refactor::kernel

#include "simd/pieces.h"
//
#include "simd/gelu.h"
