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

/// log(1 + x) for x in [0, 1], at most 4 ulp: log(u) scaled by what rounding u = 1 + x lost (Kahan).
RG_SIMD Vec log1p_unit(Vec x) {
    Vec one = Vec::set(1.f), u = one + x;
    return select(u == one, x, kernel::log(u) * (x / (u - one)));
}

/// log(1 + e^x); NaN stays NaN because max returns its second operand.
RG_SIMD Vec softplus(Vec x) { return max(Vec::zero(), x) + log1p_unit(kernel::exp(-abs(x))); }

/// x tanh(log(1 + e^x)) = x n / (n + 2) with n = e^x (e^x + 2); above 20 the factor is 1.
RG_SIMD Vec mish(Vec x) {
    Vec e = kernel::exp(min(Vec::set(20.f), x)), n = e * (e + Vec::set(2.f));
    return select(x > Vec::set(20.f), x, x * (n / (n + Vec::set(2.f))));
}

/// Where the reduction of `sin_cos` is exact enough.
constexpr float kLargestAngle = 8192.f;

/// sin(x + quarter * pi/2) for |x| ≤ kLargestAngle, at most 2 ulp of the result or 4e-9 absolute near the multiples of
/// pi. Reduction by pi/2 in three parts with fused multiply-add (Cody and Waite), polynomials of Cephes sinf and cosf.
RG_SIMD Vec sin_quarter(Vec x, float quarter) {
    Vec n = round(x * Vec::set(0.636619772f));
    Vec r = fnma(n, Vec::set(1.5707962513f), x);
    r = fnma(n, Vec::set(7.5497894159e-8f), r);
    r = fnma(n, Vec::set(5.3903029534e-15f), r);
    Vec z = r * r;
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

}  // namespace
}  // namespace refactor::kernel::elementwise
