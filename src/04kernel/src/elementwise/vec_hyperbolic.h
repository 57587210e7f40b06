#pragma once
// Hyperbolic functions of floats, their inverses, and the tangent; include `simd/math.h`, `vec_math.h` and
// `vec_functors.h` first. Internal linkage. Errors as in `vec_math.h`.

namespace refactor::kernel::elementwise {
namespace {

/// Above it e^x / 2 is what is left, in two factors, the first of which does not overflow.
constexpr float kLargestExponent = 88.f;
/// Above it x² + 1 and x² are one number, for what is left of the logarithm of 2 x.
constexpr float kLargeArgument = 4096.f, kLogOf2 = 0.693147181f;

RG_SIMD Vec half_exp_of_large(Vec x) {
    Vec root = kernel::exp(x * Vec::set(0.5f));
    return root * Vec::set(0.5f) * root;
}

/// At most 2.2 ulp; the sign of zero stays. Taylor to degree 9 below 1.
RG_SIMD Vec sinh(Vec x) {
    Vec a = abs(x), z = x * x, half = Vec::set(0.5f), e = kernel::exp(a);
    Vec p = fma(z, Vec::set(1.f / 362880), Vec::set(1.f / 5040));
    p = fma(p, z, Vec::set(1.f / 120));
    p = fma(p, z, Vec::set(1.f / 6));
    Vec y = select(a < Vec::set(1.f), fma(p * z, a, a), half * e - half / e);
    return copysign(select(a > Vec::set(kLargestExponent), half_exp_of_large(a), y), x);
}

/// At most 2.2 ulp.
RG_SIMD Vec cosh(Vec x) {
    Vec a = abs(x), half = Vec::set(0.5f), e = kernel::exp(a);
    return select(a > Vec::set(kLargestExponent), half_exp_of_large(a), half * e + half / e);
}

/// At most 4.5 ulp; the sign of zero stays. log(1 + |x| + x² / (1 + sqrt(1 + x²))).
RG_SIMD Vec asinh(Vec x) {
    Vec a = abs(x), z = x * x, one = Vec::set(1.f);
    Vec y = log1p_unit(a + z / (one + sqrt(one + z)));
    return copysign(select(a > Vec::set(kLargeArgument), kernel::log(a) + Vec::set(kLogOf2), y), x);
}

/// At most 4.5 ulp; NaN below 1. log(1 + t + sqrt(2 t + t²)) with t = x - 1.
RG_SIMD Vec acosh(Vec x) {
    Vec t = x - Vec::set(1.f), y = log1p_unit(t + sqrt(fma(t, t, t + t)));
    return select(x > Vec::set(kLargeArgument), kernel::log(x) + Vec::set(kLogOf2), y);
}

/// At most 4.5 ulp; the sign of zero stays, infinite at 1, NaN beyond. log(1 + 2 |x| / (1 - |x|)) / 2.
RG_SIMD Vec atanh(Vec x) {
    Vec a = abs(x), one = Vec::set(1.f), y = Vec::set(0.5f) * log1p_unit((a + a) / (one - a));
    return copysign(select(a == one, Vec::set(__builtin_inff()), y), x);
}

/// Tangent for |x| ≤ kLargestAngle, at most 3.5 ulp; the sign of zero stays. The polynomial of Cephes tanf.
RG_SIMD Vec tan(Vec x) {
    Vec n = round(x * Vec::set(0.636619772f)), r = remainder_of_quarters(x, n), z = r * r;
    Vec p = Vec::set(9.38540185543e-3f);
    p = fma(p, z, Vec::set(3.11992232697e-3f));
    p = fma(p, z, Vec::set(2.44301354525e-2f));
    p = fma(p, z, Vec::set(5.34112807005e-2f));
    p = fma(p, z, Vec::set(1.33387994085e-1f));
    p = fma(p, z, Vec::set(3.33331568548e-1f));
    Vec y = fma(p * z, r, r), half = n * Vec::set(0.5f);
    return select(half == floor(half), y, Vec::set(-1.f) / y);
}

#define RG_VEC_UNARY(name, function)                                \
    struct name##V {                                                \
        RG_SIMD explicit name##V(TileOp const&) {}                  \
        RG_SIMD Vec operator()(Vec x) const { return function(x); } \
    };
RG_VEC_UNARY(Sinh, elementwise::sinh)
RG_VEC_UNARY(Cosh, elementwise::cosh)
RG_VEC_UNARY(Asinh, elementwise::asinh)
RG_VEC_UNARY(Acosh, elementwise::acosh)
RG_VEC_UNARY(Atanh, elementwise::atanh)
#undef RG_VEC_UNARY

}  // namespace
}  // namespace refactor::kernel::elementwise
