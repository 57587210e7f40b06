#pragma once
// One functor for each operator that the portable tile functions add to those of `tile_functors.h`. Internal linkage.
#include "elementwise/tile_functors.h"

#include <cmath>
#include <limits>
#include <type_traits>

/// Unary operators of floats whose functor is `<name>F`.
// clang-format off
#define RG_FLOAT_UNARY(X)                                                                                            \
    X(Sign)                                                                                                          \
    X(Floor)                                                                                                         \
    X(Ceil)                                                                                                          \
    X(Round)                                                                                                         \
    X(Sqrt) X(Rsqrt) X(Reciprocal) X(Exp) X(Log) X(Erf) X(Sin) X(Cos) X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) \
        X(Tanh) X(Asinh) X(Acosh) X(Atanh) X(Sigmoid) X(Silu) X(Softplus) X(Softsign) X(Mish) X(GeluErf) X(GeluTanh) \
            X(HardSwish) X(LeakyRelu) X(Elu) X(Selu) X(Celu) X(HardSigmoid) X(ThresholdedRelu) X(Shrink)
// clang-format on

namespace refactor::kernel::elementwise {
namespace {

template <class T>
T unit_clip(T x) {
    return x < T(0) ? T(0) : x > T(1) ? T(1) : x;
}
template <class T>
T sigmoid_of(T x) {
    return T(1) / (T(1) + std::exp(-x));
}
template <class T>
T softplus_of(T x) {
    return x != x ? x : (x > T(0) ? x : T(0)) + std::log1p(std::exp(-std::abs(x)));
}

#define RG_UNARY(name, expression)                                                              \
    struct name##F {                                                                            \
        explicit name##F([[maybe_unused]] TileOp const& op) : alpha(op.alpha), beta(op.beta) {} \
        float alpha, beta;                                                                      \
        template <class T>                                                                      \
        T operator()(T x) const {                                                               \
            [[maybe_unused]] T const a = static_cast<T>(alpha), b = static_cast<T>(beta);       \
            return static_cast<T>(expression);                                                  \
        }                                                                                       \
    };
RG_UNARY(Sign, x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x)
RG_UNARY(Floor, std::floor(x))
RG_UNARY(Ceil, std::ceil(x))
RG_UNARY(Round, std::nearbyint(x))
RG_UNARY(Sqrt, std::sqrt(x))
RG_UNARY(Rsqrt, T(1) / std::sqrt(x))
RG_UNARY(Reciprocal, T(1) / x)
RG_UNARY(Exp, std::exp(x))
RG_UNARY(Log, std::log(x))
RG_UNARY(Erf, std::erf(x))
RG_UNARY(Sin, std::sin(x))
RG_UNARY(Cos, std::cos(x))
RG_UNARY(Tan, std::tan(x))
RG_UNARY(Asin, std::asin(x))
RG_UNARY(Acos, std::acos(x))
RG_UNARY(Atan, std::atan(x))
RG_UNARY(Sinh, std::sinh(x))
RG_UNARY(Cosh, std::cosh(x))
RG_UNARY(Tanh, std::tanh(x))
RG_UNARY(Asinh, std::asinh(x))
RG_UNARY(Acosh, std::acosh(x))
RG_UNARY(Atanh, std::atanh(x))
RG_UNARY(Sigmoid, sigmoid_of(x))
RG_UNARY(Silu, x* sigmoid_of(x))
RG_UNARY(Softplus, softplus_of(x))
RG_UNARY(Softsign, x / (T(1) + std::abs(x)))
RG_UNARY(Mish, x* std::tanh(softplus_of(x)))
RG_UNARY(GeluErf, T(0.5) * x * (T(1) + std::erf(x * T(0.70710678118654752))))
RG_UNARY(GeluTanh, T(0.5) * x * (T(1) + std::tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x))))
RG_UNARY(HardSwish, x* unit_clip(x / T(6) + T(0.5)))
RG_UNARY(LeakyRelu, x < T(0) ? a * x : x)
RG_UNARY(Elu, x < T(0) ? a * std::expm1(x) : x)
RG_UNARY(Selu, x > T(0) ? b * x : b * a * std::expm1(x))
RG_UNARY(Celu, x < T(0) ? a * std::expm1(x / a) : x)
RG_UNARY(HardSigmoid, unit_clip(a* x + b))
RG_UNARY(ThresholdedRelu, x > a ? x : T(0))
RG_UNARY(Shrink, x<-a ? x + b : x> a ? x - b : T(0))
RG_UNARY(SquareRootPower, x == -std::numeric_limits<T>::infinity() ? -x : std::sqrt(x + T(0)))
#undef RG_UNARY

struct CubeF {
    explicit CubeF(TileOp const& op) : mul(op) {}
    MulF mul;
    template <class T>
    T operator()(T x) const {
        return mul(mul(x, x), x);
    }
};
struct IsNanF {
    explicit IsNanF(TileOp const&) {}
    template <class T>
    uint8_t operator()(T x) const {
        return x != x;
    }
};
struct IsInfF {
    explicit IsInfF(TileOp const& op) : positive(op.alpha != 0), negative(op.beta != 0) {}
    bool positive, negative;
    template <class T>
    uint8_t operator()(T x) const {
        constexpr T kInf = std::numeric_limits<T>::infinity();
        return (positive && x == kInf) || (negative && x == -kInf);
    }
};
struct PReluF {
    explicit PReluF(TileOp const& op) : mul(op) {}
    MulF mul;
    template <class T>
    T operator()(T x, T slope) const {
        return x < T(0) ? mul(x, slope) : x;
    }
};
struct FmaF {
    explicit FmaF(TileOp const& op) : add(op), mul(op) {}
    AddF add;
    MulF mul;
    template <class T>
    T operator()(T a, T b, T c) const {
        if constexpr (std::is_floating_point_v<T>)
            return std::fma(a, b, c);
        else
            return add(mul(a, b), c);
    }
};
struct PowF {
    explicit PowF(TileOp const&) {}
    template <class T>
    T operator()(T a, T b) const {
        return std::pow(a, b);
    }
};
/// Remainder with the sign of the divisor, as numpy.mod.
struct FloatModF {
    explicit FloatModF(TileOp const&) {}
    template <class T>
    T operator()(T a, T b) const {
        auto r = std::fmod(a, b);
        if (r == T(0)) return std::copysign(r, b);
        return (r < T(0)) != (b < T(0)) ? r + b : r;
    }
};
struct FloatFmodF {
    explicit FloatFmodF(TileOp const&) {}
    template <class T>
    T operator()(T a, T b) const {
        return std::fmod(a, b);
    }
};

}  // namespace
}  // namespace refactor::kernel::elementwise
