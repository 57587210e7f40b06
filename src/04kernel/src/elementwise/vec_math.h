#pragma once
// Elementary functions that `simd/math.h` lacks; include a `simd/vec_*.h` and `simd/math.h` first. Errors are in units
// in the last place, measured against double precision by `elementwise_accuracy_test.cc`.

namespace refactor::kernel::elementwise {
namespace {

/// e^x - 1, at most 3 ulp: Taylor to degree 8 below 0.5, where e^x - 1 cancels.
RG_SIMD Vec expm1(Vec x) {
    Vec p = Vec::set(1.f / 40320);
    p = fma(p, x, Vec::set(1.f / 5040));
    p = fma(p, x, Vec::set(1.f / 720));
    p = fma(p, x, Vec::set(1.f / 120));
    p = fma(p, x, Vec::set(1.f / 24));
    p = fma(p, x, Vec::set(1.f / 6));
    p = fma(p, x, Vec::set(0.5f));
    Vec small = fma(p, x * x, x);
    return select(abs(x) < Vec::set(0.5f), small, kernel::exp(x) - Vec::set(1.f));
}

/// Where the reduction of `sin_cos` is exact enough.
constexpr float kLargestAngle = 8192.f;

/// x - n pi/2 in three parts with fused multiply-add (Cody and Waite).
RG_SIMD Vec remainder_of_quarters(Vec x, Vec n) {
    Vec r = fnma(n, Vec::set(1.5707962513f), x);
    r = fnma(n, Vec::set(7.5497894159e-8f), r);
    return fnma(n, Vec::set(5.3903029534e-15f), r);
}

/// sin(x + quarter * pi/2) for |x| ≤ kLargestAngle, at most 2 ulp of the result or 4e-9 absolute near the multiples of
/// pi. Polynomials of Cephes sinf and cosf.
RG_SIMD Vec sin_quarter(Vec x, float quarter) {
    Vec n = round(x * Vec::set(0.636619772f)), r = remainder_of_quarters(x, n), z = r * r;
    Vec s = Vec::set(-1.9515295891e-4f);
    s = fma(s, z, Vec::set(8.3321608736e-3f));
    s = fma(s, z, Vec::set(-1.6666654611e-1f));
    s = fma(s * z, r, r);
    Vec c = Vec::set(2.443315711809948e-5f);
    c = fma(c, z, Vec::set(-1.388731625493765e-3f));
    c = fma(c, z, Vec::set(4.166664568298827e-2f));
    c = fma(c * z, z, fma(z, Vec::set(-0.5f), Vec::set(1.f)));
    // m mod 4 with m = n + quarter: odd takes the cosine, 2 and 3 change the sign.
    Vec m = n + Vec::set(quarter);
    Vec half = m * Vec::set(0.5f), odd = half - floor(half);
    Vec fourth = m * Vec::set(0.25f), phase = fourth - floor(fourth);
    Vec y = select(odd == Vec::zero(), s, c);
    return select(phase >= Vec::set(0.5f), -y, y);
}

/// pi/2 is kHalfPi + kHalfPiRest.
constexpr float kHalfPi = 1.57079637f, kHalfPiRest = -4.37113883e-8f;

/// asin(s) / s - 1 of z = s^2 up to 0.25: the coefficients of Cephes asinf.
RG_SIMD Vec asin_excess(Vec z) {
    Vec p = Vec::set(4.2163199048e-2f);
    p = fma(p, z, Vec::set(2.4181311049e-2f));
    p = fma(p, z, Vec::set(4.5470025998e-2f));
    p = fma(p, z, Vec::set(7.4953002686e-2f));
    p = fma(p, z, Vec::set(1.6666752422e-1f));
    return p * z;
}

}  // namespace
}  // namespace refactor::kernel::elementwise

#include "elementwise/vec_arcsine.h"

namespace refactor::kernel::elementwise {
namespace {

/// Arctangent, at most 1.6 ulp; the sign of zero stays. Above 1 pi/2 - atan(1 / |x|); below it an odd polynomial of
/// degree 17 (largest relative error 1.7e-8, fitted by weighted least squares, each coefficient rounded before the
/// next).
RG_SIMD Vec atan(Vec x) {
    Vec a = abs(x), one = Vec::set(1.f);
    Mask large = a > one;
    Vec t = select(large, one / a, a), z = t * t;
    Vec p = Vec::set(2.919756342e-3f);
    p = fma(p, z, Vec::set(-1.636423729e-2f));
    p = fma(p, z, Vec::set(4.320597276e-2f));
    p = fma(p, z, Vec::set(-7.551728934e-2f));
    p = fma(p, z, Vec::set(1.066578627e-1f));
    p = fma(p, z, Vec::set(-1.421100348e-1f));
    p = fma(p, z, Vec::set(1.999376714e-1f));
    p = fma(p, z, Vec::set(-3.333315253e-1f));
    Vec y = fma(p * z, t, t);
    y = select(large, Vec::set(kHalfPi) - (y - Vec::set(kHalfPiRest)), y);
    return copysign(y, x);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
