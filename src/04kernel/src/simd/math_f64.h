#pragma once
// The functions of `simd/math.h` on vectors of doubles; include a `vec_f64_*.h` first. Largest errors are measured
// against f80 by `elementwise_accuracy_test.cc`, in units in the last place of the result.

namespace refactor::kernel {
namespace {

/// e^r - 1 for |r| at most a little over ln 2 / 2: Taylor to degree 13, whose remainder is below eps / 27.
RG_SIMD Vec expm1_of_remainder(Vec r) {
    Vec p = Vec::set(1. / 6227020800);
    p = fma(p, r, Vec::set(1. / 479001600));
    p = fma(p, r, Vec::set(1. / 39916800));
    p = fma(p, r, Vec::set(1. / 3628800));
    p = fma(p, r, Vec::set(1. / 362880));
    p = fma(p, r, Vec::set(1. / 40320));
    p = fma(p, r, Vec::set(1. / 5040));
    p = fma(p, r, Vec::set(1. / 720));
    p = fma(p, r, Vec::set(1. / 120));
    p = fma(p, r, Vec::set(1. / 24));
    p = fma(p, r, Vec::set(1. / 6));
    p = fma(p, r, Vec::set(0.5));
    return fma(p, r * r, r);
}

/// r and n of x = n ln 2 + r; ln 2 in the two parts of fdlibm's e_exp.c.
RG_SIMD Vec split_exponent(Vec x, Vec& n) {
    n = round(x * Vec::set(1.44269504088896341));
    return fnma(n, Vec::set(1.90821492927058770002e-10), fnma(n, Vec::set(6.93147180369123816490e-01), x));
}

/// e^x, at most 1.1 ulp for normal results. Overflows to infinity above 709.78, underflows to zero; NaN stays NaN.
RG_SIMD Vec exp(Vec x) {
    // max and min return their second operand for NaN.
    Vec n, r = split_exponent(min(Vec::set(710), max(Vec::set(-746), x)), n);
    return scale2(expm1_of_remainder(r) + Vec::set(1), n);
}

/// e^x for x <= 0, at most 1.1 ulp; 0 below about -708.75 (2^-1022.5); NaN stays NaN.
RG_SIMD Vec exp_of_negative(Vec x) {
    Vec n, r = split_exponent(max(Vec::set(-709), x), n);
    return (expm1_of_remainder(r) + Vec::set(1)) * power2(n);
}

/// e^x - 1, at most 1.5 ulp; NaN stays NaN. Below -40 it is -1.
RG_SIMD Vec expm1(Vec x) {
    Vec n, r = split_exponent(min(Vec::set(710), max(Vec::set(-40), x)), n);
    // Twice a half, so that 2^1024 is not needed.
    Vec power = power2(n - Vec::set(1)), half = fma(power, expm1_of_remainder(r), power - Vec::set(0.5));
    return half + half;
}

/// Natural logarithm, at most 1.1 ulp. log(0) = -inf, log(negative) = NaN, log(inf) = inf. (fdlibm e_log.c.)
RG_SIMD Vec log(Vec x) {
    Vec e = Vec::zero(), f = split2(x, e) - Vec::set(1);
    Vec s = f / (f + Vec::set(2)), z = s * s, half = f * f * Vec::set(0.5);
    Vec p = Vec::set(1.479819860511658591e-01);
    p = fma(p, z, Vec::set(1.531383769920937332e-01));
    p = fma(p, z, Vec::set(1.818357216161805012e-01));
    p = fma(p, z, Vec::set(2.222219843214978396e-01));
    p = fma(p, z, Vec::set(2.857142874366239149e-01));
    p = fma(p, z, Vec::set(3.999999999940941908e-01));
    p = fma(p, z, Vec::set(6.666666666666735130e-01));
    Vec y = half - fma(s, fma(p, z, half), e * Vec::set(1.90821492927058770002e-10));
    y = fma(e, Vec::set(6.93147180369123816490e-01), f - y);
    Vec inf = Vec::set(__builtin_inf());
    y = select(x == inf, inf, y);
    y = select(x == Vec::zero(), -inf, y);
    return select((x < Vec::zero()) | is_nan(x), Vec::set(__builtin_nan("")), y);
}

/// 1 / (1 + e^-x), at most 2.5 ulp for normal results.
RG_SIMD Vec sigmoid(Vec x) {
    Vec one = Vec::set(1), e = exp_of_negative(bit_or(x, Vec::set(-0.)));
    return select(x < Vec::zero(), e, one) / (one + e);
}

/// Hyperbolic tangent, at most 2.5 ulp: -t / (2 + t) with t = e^-2|x| - 1.
RG_SIMD Vec tanh(Vec x) {
    Vec t = expm1(abs(x) * Vec::set(-2));
    return copysign(t / (t + Vec::set(2)), x);
}

/// Error function, at most 3 ulp (just above 0.46875, else 1.6): the rational functions of W. J. Cody, "Rational
/// Chebyshev Approximations for the Error Function", 1969, as in netlib's specfun/erf: x R(x²) up to 0.46875, above it
/// 1 - e^-x² R(x), whose precision beyond 4 is not that of erfc, but enough for a term below eps^(1/2).
RG_SIMD Vec erf(Vec x) {
    Vec z = x * x;
    Vec p = fma(Vec::set(0.185777706184603153), z, Vec::set(3.16112374387056560));
    p = fma(p, z, Vec::set(113.864154151050156));
    p = fma(p, z, Vec::set(377.485237685302021));
    p = fma(p, z, Vec::set(3209.37758913846947));
    Vec q = z + Vec::set(23.6012909523441209);
    q = fma(q, z, Vec::set(244.024637934444173));
    q = fma(q, z, Vec::set(1282.61652607737228));
    q = fma(q, z, Vec::set(2844.23683343917062));
    Mask small = abs(x) <= Vec::set(0.46875);
    // Beyond 6 the result is 1; NaN stays NaN.
    Vec y = min(Vec::set(6), abs(x));
    Vec r = fma(Vec::set(2.15311535474403846e-8), y, Vec::set(0.564188496988670089));
    r = fma(r, y, Vec::set(8.88314979438837594));
    r = fma(r, y, Vec::set(66.1191906371416295));
    r = fma(r, y, Vec::set(298.635138197400131));
    r = fma(r, y, Vec::set(881.95222124176909));
    r = fma(r, y, Vec::set(1712.04761263407058));
    r = fma(r, y, Vec::set(2051.07837782607147));
    r = fma(r, y, Vec::set(1230.33935479799725));
    Vec s = y + Vec::set(15.7449261107098347);
    s = fma(s, y, Vec::set(117.693950891312499));
    s = fma(s, y, Vec::set(537.181101862009858));
    s = fma(s, y, Vec::set(1621.38957456669019));
    s = fma(s, y, Vec::set(3290.79923573345963));
    s = fma(s, y, Vec::set(4362.61909014324716));
    s = fma(s, y, Vec::set(3439.36767414372164));
    s = fma(s, y, Vec::set(1230.33935480374942));
    // One division serves both.
    Vec ratio = select(small, p, r) / select(small, q, s);
    Vec large = fnma(exp_of_negative(-(y * y)), ratio, Vec::set(1));
    return select(small, x * ratio, copysign(large, x));
}

RG_SIMD Vec hard_sigmoid(Vec x, Vec alpha, Vec beta) { return min(Vec::set(1), max(Vec::zero(), fma(x, alpha, beta))); }

/// 0.5 x (1 + erf(x / sqrt 2)); absolute error below eps |x|.
RG_SIMD Vec gelu_erf(Vec x) {
    Vec half = x * Vec::set(0.5);
    return fma(half, erf(x * Vec::set(0.707106781186547524)), half);
}

/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))); absolute error below eps |x|.
RG_SIMD Vec gelu_tanh(Vec x) {
    Vec half = x * Vec::set(0.5), inner = fma(x * x * x, Vec::set(0.044715), x);
    return fma(half, tanh(inner * Vec::set(0.797884560802865356)), half);
}

}  // namespace
}  // namespace refactor::kernel
