#include "common/error.h"
#include "elementwise/program.h"
#include "elementwise/reference_operators.h"

#include <algorithm>
#include <cmath>

namespace refactor::kernel::elementwise {

namespace {

double unit_clip(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x != x ? x : std::max(x, 0.) + std::log1p(std::exp(-std::abs(x))); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

}  // namespace

// A table of one line an instruction.  NOLINTNEXTLINE(readability-function-size)
double real_unary(ExprOp op, double x, double a, double b) {
    switch (op) {
        case ExprOp::Abs:
            return std::abs(x);
        case ExprOp::Neg:
            return -x;
        case ExprOp::Sign:
            return sign(x);
        case ExprOp::Floor:
            return std::floor(x);
        case ExprOp::Ceil:
            return std::ceil(x);
        case ExprOp::Round:
            return std::nearbyint(x);
        case ExprOp::Sqrt:
            return std::sqrt(x);
        case ExprOp::Rsqrt:
            return 1 / std::sqrt(x);
        case ExprOp::Reciprocal:
            return 1 / x;
        case ExprOp::Exp:
            return std::exp(x);
        case ExprOp::Log:
            return std::log(x);
        case ExprOp::Erf:
            return std::erf(x);
        case ExprOp::Sin:
            return std::sin(x);
        case ExprOp::Cos:
            return std::cos(x);
        case ExprOp::Tan:
            return std::tan(x);
        case ExprOp::Asin:
            return std::asin(x);
        case ExprOp::Acos:
            return std::acos(x);
        case ExprOp::Atan:
            return std::atan(x);
        case ExprOp::Sinh:
            return std::sinh(x);
        case ExprOp::Cosh:
            return std::cosh(x);
        case ExprOp::Tanh:
            return std::tanh(x);
        case ExprOp::Asinh:
            return std::asinh(x);
        case ExprOp::Acosh:
            return std::acosh(x);
        case ExprOp::Atanh:
            return std::atanh(x);
        case ExprOp::Sigmoid:
            return sigmoid(x);
        case ExprOp::Relu:
            return x < 0 ? 0 : x;
        case ExprOp::Silu:
            return x * sigmoid(x);
        case ExprOp::Softplus:
            return softplus(x);
        case ExprOp::Softsign:
            return x / (1 + std::abs(x));
        case ExprOp::Mish:
            return x * std::tanh(softplus(x));
        case ExprOp::GeluErf:
            return 0.5 * x * (1 + std::erf(x / std::sqrt(2.)));
        case ExprOp::GeluTanh:
            return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
        case ExprOp::HardSwish:
            return x * unit_clip(x / 6 + 0.5);
        case ExprOp::LeakyRelu:
            return x < 0 ? a * x : x;
        case ExprOp::Elu:
            return x < 0 ? a * std::expm1(x) : x;
        case ExprOp::Selu:
            return x > 0 ? b * x : b * a * std::expm1(x);
        case ExprOp::Celu:
            return x < 0 ? a * std::expm1(x / a) : x;
        case ExprOp::HardSigmoid:
            return unit_clip(a * x + b);
        case ExprOp::ThresholdedRelu:
            return x > a ? x : 0;
        case ExprOp::Shrink:
            return x < -a ? x + b : x > a ? x - b : 0;
        default:
            throw InternalError("no unary float operator " + std::string(name_of(op)));
    }
}

double real_binary(ExprOp op, double x, double y) {
    switch (op) {
        case ExprOp::Add:
            return x + y;
        case ExprOp::Sub:
            return x - y;
        case ExprOp::Mul:
            return x * y;
        case ExprOp::Div:
            return x / y;
        case ExprOp::Pow:
            return std::pow(x, y);
        case ExprOp::Fmod:
            return std::fmod(x, y);
        case ExprOp::Mod: {
            auto r = std::fmod(x, y);
            return r == 0 ? std::copysign(r, y) : (r < 0) != (y < 0) ? r + y : r;
        }
        case ExprOp::Min:
            return x != x || x < y ? x : y;
        case ExprOp::Max:
            return x != x || x > y ? x : y;
        case ExprOp::PRelu:
            return x < 0 ? x * y : x;
        default:
            throw InternalError("no binary float operator " + std::string(name_of(op)));
    }
}

}  // namespace refactor::kernel::elementwise
