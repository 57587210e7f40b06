#pragma once
// Arcsine and arccosine of floats or doubles; `vec_math.h` and `vec_math_f64.h` include it behind what it asks for:
// `asin_excess`, `kHalfPi` and `kHalfPiRest`.

namespace refactor::kernel::elementwise {
namespace {

/// Arcsine, at most 2.4 ulp; the sign of zero stays, NaN beyond 1. Above a half pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
RG_SIMD Vec asin(Vec x) {
    Vec a = abs(x), half = Vec::set(Vec::Element(0.5));
    Mask large = a > half;
    Vec z = select(large, fnma(a, half, half), x * x);
    Vec s = select(large, sqrt(z), a);
    Vec y = fma(asin_excess(z), s, s);
    y = select(large, Vec::set(kHalfPi) - (y + y - Vec::set(kHalfPiRest)), y);
    return copysign(y, x);
}

/// Arccosine, at most 1.3 ulp (1.6 of doubles); NaN beyond 1. pi/2 - asin(x) up to a half, twice asin(sqrt((1 - |x|) /
/// 2)), or pi minus that for negative x, above it.
RG_SIMD Vec acos(Vec x) {
    Vec a = abs(x), half = Vec::set(Vec::Element(0.5));
    Mask large = a > half;
    Vec z = select(large, fnma(a, half, half), x * x), root = sqrt(z);
    Vec s = select(large, copysign(root + root, x), -x);
    Vec pi = select(x < Vec::zero(), Vec::set(2 * kHalfPi), Vec::zero());
    return select(large, pi, Vec::set(kHalfPi)) + fma(asin_excess(z), s, s);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
