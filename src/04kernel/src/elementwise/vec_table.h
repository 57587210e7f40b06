#pragma once
// Which functor is which operator of floats; include `vec_functors.h` first, and what it asks for. Internal linkage.
#include "elementwise/tile_tables.h"

extern "C" {
float sinf(float) noexcept;
float cosf(float) noexcept;
float tanf(float) noexcept;
double sin(double) noexcept;
double cos(double) noexcept;
}

namespace refactor::kernel::elementwise {
namespace {

struct SineF {
    RG_INLINE static float far(float x) { return sinf(x); }
    RG_INLINE static double far(double x) { return ::sin(x); }
    /// -0 stays -0.
    RG_SIMD static Vec near(Vec x) { return select(x == Vec::zero(), x, sin_quarter(x, 0)); }
};
struct CosineF {
    RG_INLINE static float far(float x) { return cosf(x); }
    RG_INLINE static double far(double x) { return ::cos(x); }
    RG_SIMD static Vec near(Vec x) { return sin_quarter(x, 1); }
};

/// A function of angles; vectors with one too large for the quick reduction go through the C library.
template <class F>
void vec_angle(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<Vec::Element const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<Vec::Element*>(slots[op.out]);
    int64_t const step = step_of(op, 0);
    for (; n > 0; n -= kRepeat, a += step, out += kRepeat) {
        for (int j = 0; j < kRepeat && j < n; j += Vec::width) {
            Vec x = load_lanes(a + j, n - j);
            if (!any(abs(x) > Vec::set(kLargestAngle))) {
                store_lanes(F::near(x), out + j, n - j);
                continue;
            }
            for (int k = j; k < j + Vec::width && k < n; ++k) out[k] = F::far(a[k]);
        }
    }
}

// A table of one line an instruction.  NOLINTNEXTLINE(readability-function-size)
TileFunction vec_function(TileCode code) {
    switch (code) {
        case TileCode::Square:
            return vec_unary<SquareV>;
        case TileCode::Cube:
            return vec_unary<CubeV>;
        case TileCode::SquareRootPower:
            return vec_unary<SquareRootPowerV>;
        case TileCode::MulAdd:
            return vec_ternary<MulAddV>;
        default:
            break;
    }
    switch (op_of(code)) {
#define RG_OP(kind, name) \
    case ExprOp::name:    \
        return vec_##kind<name##V>;
        RG_OP(unary, Abs)
        RG_OP(unary, Neg)
        RG_OP(unary, Sign)
        RG_OP(unary, Floor)
        RG_OP(unary, Ceil)
        RG_OP(unary, Round)
        RG_OP(unary, Sqrt)
        RG_OP(unary, Rsqrt)
        RG_OP(unary, Reciprocal)
        RG_OP(packed, Exp)
        RG_OP(unary, Log)
        RG_OP(packed, Erf)
        RG_OP(unary, Asin)
        RG_OP(unary, Acos)
        RG_OP(unary, Atan)
        RG_OP(packed, Tanh)
        RG_OP(packed, Sigmoid)
        RG_OP(unary, Relu)
        RG_OP(unary, Silu)
        RG_OP(unary, Softplus)
        RG_OP(unary, Softsign)
        RG_OP(unary, Mish)
        RG_OP(unary, GeluErf)
        RG_OP(unary, GeluTanh)
        RG_OP(unary, HardSwish)
        RG_OP(unary, LeakyRelu)
        RG_OP(unary, Elu)
        RG_OP(unary, Selu)
        RG_OP(unary, Celu)
        RG_OP(unary, HardSigmoid)
        RG_OP(unary, ThresholdedRelu)
        RG_OP(unary, Shrink)
        RG_OP(binary, Add)
        RG_OP(binary, Sub)
        RG_OP(binary, Mul)
        RG_OP(binary, Div)
        RG_OP(binary, Min)
        RG_OP(binary, Max)
        RG_OP(binary, PRelu)
        RG_OP(ternary, Clip)
        RG_OP(ternary, Fma)
#undef RG_OP
        case ExprOp::Sin:
            return vec_angle<SineF>;
        case ExprOp::Cos:
            return vec_angle<CosineF>;
        case ExprOp::Equal:
        case ExprOp::Less:
        case ExprOp::LessEqual:
        case ExprOp::Greater:
        case ExprOp::GreaterEqual:
            return common_function<Vec::Element>(code);
        default:
            return nullptr;
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
