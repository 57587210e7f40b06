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
    return select(a < Vec::set(0.625f), small, copysign(large, x));
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

/// 0.5 x (1 + erf(x / sqrt 2)); absolute error below eps |x|.
#ifdef __AVX512F__
/// The normal distribution less 1/2 is odd; polynomials of degree 5 around the multiples of 3/8 up to 5.4, where 1/2 is
/// as near (least squares at Chebyshev nodes), are picked by a permutation.
RG_SIMD Vec gelu_erf(Vec x) {
    alignas(64) static constexpr float kCoefficients[6][16] = {
        {0.00979955029f, 0.00670248736f, -0.000126079409f, -0.00523130782f, -0.00583451567f, -0.00328576984f,
         -0.000477970782f, 0.00095488748f, 0.00110275007f, 0.000720221782f, 0.000343809195f, 0.000129128006f,
         3.94321651e-05f, 9.96864765e-06f, 2.10972553e-06f, 0.f},
        {3.85971471e-05f, 0.0164752528f, 0.0227784887f, 0.0171564762f, 0.00610545091f, -0.00269759889f, -0.00608493341f,
         -0.00539879734f, -0.0033296363f, -0.00159261667f, -0.000616453646f, -0.000197296569f, -5.28767378e-05f,
         -1.196422e-05f, -2.29839611e-06f, 0.f},
        {-0.0664933622f, -0.0532597825f, -0.0219583046f, 0.00937905349f, 0.0269822311f, 0.0288400594f, 0.0214906726f,
         0.0124924751f, 0.00590922311f, 0.00232250267f, 0.000767597638f, 0.000214961212f, 5.12706683e-05f,
         1.04532146e-05f, 1.82674387e-06f, 0.f},
        {7.91828327e-08f, -0.0697210059f, -0.112924434f, -0.119179703f, -0.0971386507f, -0.064488098f, -0.0357077979f,
         -0.0167006981f, -0.00664769718f, -0.00226300396f, -0.000661024766f, -0.00016607139f, -3.59478363e-05f,
         -6.71311955e-06f, -1.08266283e-06f, 0.f},
        {0.398942292f, 0.37185508f, 0.301137447f, 0.211876646f, 0.1295176f, 0.0687862784f, 0.0317396522f, 0.0127241807f,
         0.00443184795f, 0.00134111894f, 0.000352595816f, 8.05405507e-05f, 1.59837873e-05f, 2.75595835e-06f,
         4.12851335e-07f, 0.f},
        {0.f, 0.146169767f, 0.27337265f, 0.369705468f, 0.43319279f, 0.469603628f, 0.487775534f, 0.495667547f,
         0.498650104f, 0.499630928f, 0.499911577f, 0.499981463f, 0.499996603f, 0.499999464f, 0.499999911f, 0.5f}};
    // The number of the polynomial is in the low bits of `biased`; NaN, the second operand, stays NaN.
    Vec bias = Vec::set(12582912.f), t = min(Vec::set(5.75f), abs(x));
    Vec biased = fma(t, Vec::set(2.66666667f), bias), r = fnma(biased - bias, Vec::set(0.375f), t);
    auto coefficient = [&](int i) __attribute__((always_inline)) {
        return Vec{_mm512_permutexvar_ps(_mm512_castps_si512(biased.v), _mm512_load_ps(kCoefficients[i]))};
    };
    Vec p = coefficient(0);
#pragma GCC unroll 5
    for (int i = 1; i < 6; ++i) p = fma(p, r, coefficient(i));
    return fma(x, copysign(p, x), x * Vec::set(0.5f));
}
#else
RG_SIMD Vec gelu_erf(Vec x) {
    Vec h = x * Vec::set(0.5f);
    return fma(h, erf(x * Vec::set(0.70710678118f)), h);
}
#endif

/// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))); absolute error below eps |x|.
RG_SIMD Vec gelu_tanh(Vec x) {
    Vec inner = x * fma(x * x, Vec::set(0.044715f * 0.79788456080f), Vec::set(0.79788456080f));
    Vec h = x * Vec::set(0.5f);
    return fma(h, tanh(inner), h);
}

RG_SIMD Vec hard_sigmoid(Vec x, Vec alpha, Vec beta) {
    return min(Vec::set(1.f), max(Vec::zero(), fma(x, alpha, beta)));
}

}  // namespace
}  // namespace refactor::kernel
