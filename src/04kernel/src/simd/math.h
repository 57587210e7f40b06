#pragma once
#include "simd/vec.h"

// Elementary functions on `Vec`. Largest errors over all floats are
// measured against double precision by `math_test.cc`, in units in the last place of the result.

namespace refactor::kernel {
namespace {

/// e^r for |r| at most a little over ln 2 / 2: the Taylor-like minimax polynomial of degree 6 (Cephes expf).
RG_SIMD Vec exp_of_remainder(Vec r) {
    Vec p = Vec::set(1.9875691500e-4f);
    p = fma(p, r, Vec::set(1.3981999507e-3f));
    p = fma(p, r, Vec::set(8.3334519073e-3f));
    p = fma(p, r, Vec::set(4.1665795894e-2f));
    p = fma(p, r, Vec::set(1.6666665459e-1f));
    p = fma(p, r, Vec::set(5.0000001201e-1f));
    p = fma(p, r * r, r);
    return p + Vec::set(1.f);
}

/// e^x, at most 1.1 ulp for normal results. Overflows to infinity above 88.72, underflows to zero; NaN stays NaN.
/// Reduction x = n ln 2 + r with a two-part ln 2.
RG_SIMD Vec exp(Vec x) {
    // max and min return their second operand for NaN.
    x = min(Vec::set(89.f), max(Vec::set(-104.f), x));
    Vec n = round(x * Vec::set(1.44269504f));
    Vec r = fnma(n, Vec::set(0.693359375f), x);
    r = fnma(n, Vec::set(-2.12194440e-4f), r);
    return scale2(exp_of_remainder(r), n);
}

/// e^x for x <= 0, at most 1.1 ulp; 0 below about -87.7 (2^-126.5); NaN stays NaN. Adding 1.5 · 2^23 rounds to an
/// integer in the low bits, from where it becomes the exponent: about half the instructions of `exp` without AVX-512.
RG_SIMD Vec exp_of_negative(Vec x) {
    x = max(Vec::set(-88.f), x);
    Vec biased = fma(x, Vec::set(1.44269504f), Vec::set(12582912.f + 127.f));
    Vec n = biased - Vec::set(12582912.f + 127.f);
    Vec r = fnma(n, Vec::set(0.693359375f), x);
    r = fnma(n, Vec::set(-2.12194440e-4f), r);
    return exp_of_remainder(r) * power_of_low_bits(biased);
}

/// 2^x for x <= 0, at most 2.1 ulp; 0 below about -126.5; NaN stays NaN. For scores, which have larger errors of their
/// own: a polynomial of degree 5 (largest relative error 9.2e-8, fitted by weighted least squares), two thirds of the
/// instructions of `exp_of_negative`.
RG_SIMD Vec exp2_of_negative(Vec x) {
    x = max(Vec::set(-127.f), x);
    Vec biased = x + Vec::set(12582912.f + 127.f);
    Vec f = x - (biased - Vec::set(12582912.f + 127.f));
    Vec p = Vec::set(1.326472731e-3f);
    p = fma(p, f, Vec::set(9.671512991e-3f));
    p = fma(p, f, Vec::set(5.550733581e-2f));
    p = fma(p, f, Vec::set(2.402224243e-1f));
    p = fma(p, f, Vec::set(6.931470037e-1f));
    p = fma(p, f, Vec::set(1.f));
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

/// 1 / (1 + e^-x), at most 2.5 ulp for normal results.
RG_SIMD Vec sigmoid(Vec x) {
    Vec one = Vec::set(1.f), e = exp_of_negative(bit_or(x, Vec::set(-0.f)));
    return select(x < Vec::zero(), e, one) / (one + e);
}

/// Hyperbolic tangent, at most 1.5 ulp: an odd polynomial below 0.625 (Cephes tanhf), 1 - 2 / (e^2x + 1) above,
/// with e^-2x, which cannot overflow.
RG_SIMD Vec tanh(Vec x) {
    Vec a = abs(x), z = x * x;
    Vec p = Vec::set(-5.70498872745e-3f);
    p = fma(p, z, Vec::set(2.06390887954e-2f));
    p = fma(p, z, Vec::set(-5.37397155531e-2f));
    p = fma(p, z, Vec::set(1.33314422036e-1f));
    p = fma(p, z, Vec::set(-3.33332819422e-1f));
    Vec small = fma(p * z, x, x);
    Vec e = exp_of_negative(a * Vec::set(-2.f));
    Vec large = Vec::set(1.f) - (e + e) / (e + Vec::set(1.f));
    return copysign(select(a < Vec::set(0.625f), small, large), x);  // -0 stays -0
}

/// Error function, at most 1.1 ulp: an odd polynomial below 0.9277, 1 - e^q above (coefficients: N. Juffa,
/// stackoverflow.com/a/35148199).
RG_SIMD Vec erf(Vec x) {
    Vec t = abs(x), s = x * x;
    Vec q = fma(Vec::set(-1.72853470e-5f), t, Vec::set(3.83197126e-4f));
    Vec u = fma(Vec::set(-3.88396438e-3f), t, Vec::set(2.42546219e-2f));
    q = fma(q, s, u);
    q = fma(q, t, Vec::set(-1.06777877e-1f));
    q = fma(q, t, Vec::set(-6.34846687e-1f));
    q = fma(q, t, Vec::set(-1.28717512e-1f));
    // Beyond 4 the result is 1; the bound keeps q finite.
    Vec b = min(Vec::set(10.f), t);
    q = select(t > Vec::set(4.f), Vec::set(-20.f), fma(q, b, -b));
    Vec large = copysign(Vec::set(1.f) - exp_of_negative(q), x);
    Vec p = Vec::set(-5.96761703e-4f);
    p = fma(p, s, Vec::set(4.99119423e-3f));
    p = fma(p, s, Vec::set(-2.67681349e-2f));
    p = fma(p, s, Vec::set(1.12819925e-1f));
    p = fma(p, s, Vec::set(-3.76125336e-1f));
    p = fma(p, s, Vec::set(1.28379166e-1f));
    return select(t > Vec::set(0.927734375f), large, fma(p, x, x));
}

RG_SIMD Vec hard_sigmoid(Vec x, Vec alpha, Vec beta) {
    return min(Vec::set(1.f), max(Vec::zero(), fma(x, alpha, beta)));
}

}  // namespace
}  // namespace refactor::kernel

#include "simd/gelu.h"
