#pragma once
// The functions of `vec_math.h` on vectors of doubles; include a `simd/vec_f64_*.h` and `simd/math_f64.h` first. Errors
// are in units in the last place, measured against f80 by `elementwise_accuracy_test.cc`.

namespace refactor::kernel::elementwise {
namespace {

/// Packs of vectors are of f32.
template <class F>
void vec_packed(TileOp const& op, std::byte* const* slots, int64_t n) {
    vec_unary<F>(op, slots, n);
}

/// Where the product of a part of pi/2 with a quotient has bits to spare.
constexpr double kLargestAngle = 1 << 20;

/// sin(x + quarter * pi/2) for |x| ≤ kLargestAngle, at most 1.6 ulp. Reduction by pi/2 in three doubles with fused
/// multiply-add: the first difference is exact, for x and pi/2 are multiples of 2^-53 that agree in their first bits.
/// Polynomials of fdlibm's k_sin.c and k_cos.c.
RG_SIMD Vec sin_quarter(Vec x, double quarter) {
    Vec n = round(x * Vec::set(0.636619772367581343));
    Vec r = fnma(n, Vec::set(0x1.921fb54442d18p+0), x);
    r = fnma(n, Vec::set(0x1.1a62633145c07p-54), r);
    r = fnma(n, Vec::set(-0x1.f1976b7ed8fbcp-110), r);
    Vec z = r * r;
    Vec s = Vec::set(1.58969099521155010221e-10);
    s = fma(s, z, Vec::set(-2.50507602534068634195e-08));
    s = fma(s, z, Vec::set(2.75573137070700676789e-06));
    s = fma(s, z, Vec::set(-1.98412698298579493134e-04));
    s = fma(s, z, Vec::set(8.33333333332248946124e-03));
    s = fma(s, z, Vec::set(-1.66666666666666324348e-01));
    s = fma(s * z, r, r);
    Vec c = Vec::set(-1.13596475577881948265e-11);
    c = fma(c, z, Vec::set(2.08757232129817482790e-09));
    c = fma(c, z, Vec::set(-2.75573143513906633035e-07));
    c = fma(c, z, Vec::set(2.48015872894767294178e-05));
    c = fma(c, z, Vec::set(-1.38888888888741095749e-03));
    c = fma(c, z, Vec::set(4.16666666666666019037e-02));
    Vec one = Vec::set(1), half = z * Vec::set(0.5), rest = one - half;
    c = rest + fma(z * z, c, (one - rest) - half);
    // m mod 4 with m = n + quarter: odd takes the cosine, 2 and 3 change the sign.
    Vec m = n + Vec::set(quarter);
    Vec pairs = m * Vec::set(0.5), odd = pairs - floor(pairs);
    Vec fourth = m * Vec::set(0.25), phase = fourth - floor(fourth);
    Vec y = select(odd == Vec::zero(), s, c);
    y = select(phase >= Vec::set(0.5), -y, y);
    return quarter == 0 ? select(x == Vec::zero(), x, y) : y;  // the sign of zero stays
}

/// pi/2 is kHalfPi + kHalfPiRest.
constexpr double kHalfPi = 1.57079632679489656, kHalfPiRest = 6.12323399573676604e-17;

/// asin(s) / s - 1 of z = s^2 up to 0.25 (fdlibm e_asin.c).
RG_SIMD Vec asin_excess(Vec z) {
    Vec p = Vec::set(3.47933107596021167570e-05);
    p = fma(p, z, Vec::set(7.91534994289814532176e-04));
    p = fma(p, z, Vec::set(-4.00555345006794114027e-02));
    p = fma(p, z, Vec::set(2.01212532134862925881e-01));
    p = fma(p, z, Vec::set(-3.25565818622400915405e-01));
    p = fma(p, z, Vec::set(1.66666666666666657415e-01));
    Vec q = Vec::set(7.70381505559019352791e-02);
    q = fma(q, z, Vec::set(-6.88283971605453293030e-01));
    q = fma(q, z, Vec::set(2.02094576023350569471e+00));
    q = fma(q, z, Vec::set(-2.40339491173441421878e+00));
    q = fma(q, z, Vec::set(1));
    return p * z / q;
}

}  // namespace
}  // namespace refactor::kernel::elementwise

#include "elementwise/vec_arcsine.h"

namespace refactor::kernel::elementwise {
namespace {

/// Arctangent, at most 1.6 ulp; the sign of zero stays. Above tan(3 pi/8) it is pi/2 + atan(-1 / |x|), above 0.66 pi/4
/// + atan((|x| - 1) / (|x| + 1)); the rational function of Cephes' atan.c.
RG_SIMD Vec atan(Vec x) {
    Vec a = abs(x), one = Vec::set(1);
    Mask large = a > Vec::set(2.41421356237309505), high = a > Vec::set(0.66);
    Vec t = select(large, -one, select(high, a - one, a)) / select(large, a, select(high, a + one, one)), z = t * t;
    Vec p = Vec::set(-8.750608600031904122785e-1);
    p = fma(p, z, Vec::set(-1.615753718733365076637e1));
    p = fma(p, z, Vec::set(-7.500855792314704667340e1));
    p = fma(p, z, Vec::set(-1.228866684490136173410e2));
    p = fma(p, z, Vec::set(-6.485021904942025371773e1));
    Vec q = z + Vec::set(2.485846490142306297962e1);
    q = fma(q, z, Vec::set(1.650270098316988542046e2));
    q = fma(q, z, Vec::set(4.328810604912902668951e2));
    q = fma(q, z, Vec::set(4.853903996359136964868e2));
    q = fma(q, z, Vec::set(1.945506571482613964425e2));
    Vec turns = select(large, one, select(high, Vec::set(0.5), Vec::zero()));  // in pi/2
    Vec y = fma(p * z / q, t, fma(turns, Vec::set(kHalfPiRest), t)) + turns * Vec::set(kHalfPi);
    return copysign(y, x);
}

}  // namespace
}  // namespace refactor::kernel::elementwise
