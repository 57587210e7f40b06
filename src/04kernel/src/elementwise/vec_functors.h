#pragma once
// Operators of floats, each a functor on vectors; include a `simd/vec_*.h`, `simd/math.h` and `vec_math.h` first, or
// those for f64. Internal linkage.
#include "elementwise/tile.h"
#include "simd/held.h"

namespace refactor::kernel::elementwise {
namespace {

/// max and min that pass on a NaN of either side (the instructions return the second operand).
RG_SIMD Vec nan_max(Vec a, Vec b) { return select(is_nan(a), a, max(a, b)); }
RG_SIMD Vec nan_min(Vec a, Vec b) { return select(is_nan(a), a, min(a, b)); }
RG_SIMD Vec unit_clip(Vec x) { return min(Vec::set(1.f), max(Vec::zero(), x)); }
RG_SIMD Vec rsqrt(Vec x) { return Vec::set(1.f) / sqrt(x); }

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

#define RG_VEC_UNARY(name, expression)                                                              \
    struct name##V {                                                                                \
        RG_SIMD explicit name##V(TileOp const& op) : a(Vec::set(op.alpha)), b(Vec::set(op.beta)) {} \
        Vec a, b;                                                                                   \
        RG_SIMD Vec operator()(Vec x) const { return expression; }                                  \
    };
RG_VEC_UNARY(Abs, abs(x))
RG_VEC_UNARY(Neg, -x)
RG_VEC_UNARY(Sign, select(x > Vec::zero(), Vec::set(1.f), select(x < Vec::zero(), Vec::set(-1.f), x)))
RG_VEC_UNARY(Floor, floor(x))
RG_VEC_UNARY(Ceil, ceil(x))
RG_VEC_UNARY(Round, round(x))
RG_VEC_UNARY(Sqrt, sqrt(x))
RG_VEC_UNARY(Rsqrt, rsqrt(x))
RG_VEC_UNARY(Reciprocal, Vec::set(1.f) / x)
RG_VEC_UNARY(Log, kernel::log(x))
RG_VEC_UNARY(Asin, asin(x))
RG_VEC_UNARY(Acos, acos(x))
RG_VEC_UNARY(Atan, atan(x))
RG_VEC_UNARY(Relu, max(Vec::zero(), x))
RG_VEC_UNARY(Silu, x* sigmoid(x))
RG_VEC_UNARY(Softplus, softplus(x))
RG_VEC_UNARY(Softsign, x / (Vec::set(1.f) + abs(x)))
RG_VEC_UNARY(Mish, mish(x))
RG_VEC_UNARY(GeluErf, gelu_erf(x))
RG_VEC_UNARY(GeluTanh, gelu_tanh(x))
RG_VEC_UNARY(HardSwish, x* unit_clip(fma(x, Vec::set(Vec::Element(1) / 6), Vec::set(0.5f))))
RG_VEC_UNARY(LeakyRelu, select(x < Vec::zero(), a* x, x))
RG_VEC_UNARY(Elu, select(x < Vec::zero(), a* expm1(x), x))
RG_VEC_UNARY(Selu, select(x < Vec::zero(), b* a* expm1(x), b* x))
RG_VEC_UNARY(Celu, select(x < Vec::zero(), a* expm1(x / a), x))
RG_VEC_UNARY(HardSigmoid, unit_clip(fma(a, x, b)))
RG_VEC_UNARY(ThresholdedRelu, select(x > a, x, Vec::zero()))
RG_VEC_UNARY(Shrink, select(x < -a, x + b, select(x > a, x - b, Vec::zero())))
RG_VEC_UNARY(Square, x* x)
RG_VEC_UNARY(Cube, x* x* x)
RG_VEC_UNARY(SquareRootPower,
             select(x == Vec::set(-static_cast<Vec::Element>(__builtin_inf())), -x, sqrt(x + Vec::zero())))
#undef RG_VEC_UNARY

/// Of vectors and of packs of them.
#define RG_VEC_PACKED(name, function)              \
    struct name##V {                               \
        RG_SIMD explicit name##V(TileOp const&) {} \
        template <class V>                         \
        RG_SIMD V operator()(V x) const {          \
            return kernel::function(x);            \
        }                                          \
    };

RG_VEC_PACKED(Exp, exp)
RG_VEC_PACKED(Erf, erf)
RG_VEC_PACKED(Tanh, tanh)
RG_VEC_PACKED(Sigmoid, sigmoid)
#undef RG_VEC_PACKED

#define RG_VEC_BINARY(name, expression)                                   \
    struct name##V {                                                      \
        RG_SIMD explicit name##V(TileOp const&) {}                        \
        RG_SIMD Vec operator()(Vec x, Vec y) const { return expression; } \
    };
RG_VEC_BINARY(Add, x + y)
RG_VEC_BINARY(Sub, x - y)
RG_VEC_BINARY(Mul, x* y)
RG_VEC_BINARY(Div, x / y)
RG_VEC_BINARY(Min, nan_min(x, y))
RG_VEC_BINARY(Max, nan_max(x, y))
RG_VEC_BINARY(PRelu, select(x < Vec::zero(), x* y, x))
#undef RG_VEC_BINARY

struct ClipV {
    RG_SIMD explicit ClipV(TileOp const&) {}
    RG_SIMD Vec operator()(Vec x, Vec low, Vec high) const { return nan_min(nan_max(x, low), high); }
};
/// As by two steps, the first of which rounds the product.
struct MulAddV {
    RG_SIMD explicit MulAddV(TileOp const&) {}
    RG_SIMD Vec operator()(Vec x, Vec y, Vec z) const { return held(x * y) + z; }
};
struct FmaV {
    RG_SIMD explicit FmaV(TileOp const&) {}
    RG_SIMD Vec operator()(Vec x, Vec y, Vec z) const { return fma(x, y, z); }
};

}  // namespace
}  // namespace refactor::kernel::elementwise
