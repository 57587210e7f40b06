#include "kernel/ops/elementwise.h"
#include "movement/movement_test.h"

#include <cmath>
#include <limits>
#include <random>

namespace refactor::kernel {
namespace {

using namespace testing;

struct Case {
    ExprOp op;
    double low, high;  ///< sweep
    double ulps;       ///< bound in units in the last place of an f32 result
    double absolute;   ///< where the result cancels
    double (*exact)(double);
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::max(x, 0.) + std::log1p(std::exp(-std::abs(x))); }

/// The bounds are those stated beside the functions (`simd/math.h`, `vec_math.h`); a product with x adds a rounding.
constexpr double kEps = 5.97e-8;
Case const kCases[] = {
    {ExprOp::Exp, -87, 88.7, 1.1, 0, [](double x) { return std::exp(x); }},
    {ExprOp::Log, 1e-30, 1e4, 1.6, 0, [](double x) { return std::log(x); }},
    {ExprOp::Erf, -5, 5, 2.5, 0, [](double x) { return std::erf(x); }},
    {ExprOp::Tanh, -12, 12, 2.5, 0, [](double x) { return std::tanh(x); }},
    {ExprOp::Sigmoid, -80, 80, 2.5, 0, sigmoid},
    {ExprOp::Silu, -80, 80, 3.5, 0, [](double x) { return x * sigmoid(x); }},
    {ExprOp::Elu, -100, 5, 3, 0, [](double x) { return x < 0 ? std::expm1(x) : x; }},
    {ExprOp::Softplus, -80, 80, 5, 0, softplus},
    {ExprOp::Mish, -80, 80, 5, 0, [](double x) { return x * std::tanh(softplus(x)); }},
    {ExprOp::Sin, -8000, 8000, 2, kEps, [](double x) { return std::sin(x); }},
    {ExprOp::Cos, -8000, 8000, 2, kEps, [](double x) { return std::cos(x); }},
    {ExprOp::Sin, -1e9, 1e9, 2, kEps, [](double x) { return std::sin(x); }},
    {ExprOp::Asin, -1, 1, 2.4, 0, [](double x) { return std::asin(x); }},
    {ExprOp::Acos, -1, 1, 1.3, 0, [](double x) { return std::acos(x); }},
    {ExprOp::Atan, -10, 10, 1.6, 0, [](double x) { return std::atan(x); }},
    {ExprOp::Atan, -1e9, 1e9, 1.6, 0, [](double x) { return std::atan(x); }},
    {ExprOp::Tan, -1.6, 1.6, 3.5, 0, [](double x) { return std::tan(x); }},
    {ExprOp::Tan, -8000, 8000, 3.5, 0, [](double x) { return std::tan(x); }},
    {ExprOp::Tan, -1e9, 1e9, 1, 0, [](double x) { return std::tan(x); }},
    {ExprOp::Sinh, -3, 3, 2.2, 0, [](double x) { return std::sinh(x); }},
    {ExprOp::Sinh, -89.4, 89.4, 2.2, 0, [](double x) { return std::sinh(x); }},
    {ExprOp::Cosh, -89.4, 89.4, 2.2, 0, [](double x) { return std::cosh(x); }},
    {ExprOp::Asinh, -5, 5, 4.5, 0, [](double x) { return std::asinh(x); }},
    {ExprOp::Asinh, -1e30, 1e30, 4.5, 0, [](double x) { return std::asinh(x); }},
    {ExprOp::Acosh, 1, 5, 4.5, 0, [](double x) { return std::acosh(x); }},
    {ExprOp::Acosh, 1, 1e30, 4.5, 0, [](double x) { return std::acosh(x); }},
    {ExprOp::Atanh, -1, 1, 4.5, 0, [](double x) { return std::atanh(x); }},
    {ExprOp::GeluErf, -8, 8, 0, 2 * 2 * kEps * 8, [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.))); }},
};

TEST(ElementwiseAccuracy, OfF32AgainstDouble) {
    constexpr int64_t kCount = 40007;
    for (auto const& c : kCases) {
        ExprInstruction code{c.op, DataType::F32, {0}, 1};
        ElementwiseInfo info{{{ExprOp::Input, DataType::F32, {0}}, code}, {1}};
        std::vector<Tensor> inputs{Tensor(DataType::F32, {kCount})};
        auto* x = inputs[0].as<float>();
        for (int64_t i = 0; i < kCount; ++i)
            x[i] = static_cast<float>(c.low + (c.high - c.low) * static_cast<double>(i) / (kCount - 1));
        for (auto& answer : run_all(info, inputs, {Tensor(DataType::F32, {kCount})})) {
            auto* y = answer.outputs[0].as<float>();
            double worst = 0, where = 0;
            for (int64_t i = 0; i < kCount; ++i) {
                auto exact = c.exact(x[i]), error = std::abs(y[i] - exact);
                if (error <= c.absolute || std::abs(exact) < 0x1p-126 || y[i] == static_cast<float>(exact)) continue;
                error /= std::ldexp(1., std::ilogb(exact) - 23);
                if (!(error <= worst)) worst = error, where = x[i];
            }
            EXPECT_LE(worst, c.ulps) << answer.id << " " << name_of(c.op) << " at " << where;
        }
    }
}

ElementwiseInfo power_of_inputs() {
    return {{{ExprOp::Input, DataType::F32, {0}},
             {ExprOp::Input, DataType::F32, {1}},
             {ExprOp::Pow, DataType::F32, {0, 1}}},
            {2}};
}

TEST(ElementwiseAccuracy, Powers) {
    constexpr int64_t kCount = 200'003;
    std::mt19937 random(17);
    // Results of all sizes, bases near 1 with large exponents included.
    for (float spread : {126.f, 8.f, 0.5f, 1e-3f}) {
        std::uniform_real_distribution<float> log2_x(-spread, spread), log2_of_result(-126, 128);
        std::vector<Tensor> inputs{Tensor(DataType::F32, {kCount}), Tensor(DataType::F32, {kCount})};
        auto *x = inputs[0].as<float>(), *y = inputs[1].as<float>();
        for (int64_t i = 0; i < kCount; ++i)
            x[i] = std::exp2(log2_x(random)), y[i] = log2_of_result(random) / std::log2(x[i]);
        for (auto& answer : run_all(power_of_inputs(), inputs, {Tensor(DataType::F32, {kCount})})) {
            auto* z = answer.outputs[0].as<float>();
            double worst = 0;
            int64_t where = 0;
            for (int64_t i = 0; i < kCount; ++i) {
                auto exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
                if (!(exact < std::numeric_limits<float>::max()) || exact < 0x1p-126) continue;
                auto unit = std::ldexp(1., std::ilogb(exact) - 23);
                if (auto error = std::abs(z[i] - exact) / unit; !(error <= worst)) worst = error, where = i;
            }
            EXPECT_LE(worst, 1.5) << answer.id << " " << x[where] << "^" << y[where];
        }
    }
}

TEST(ElementwiseAccuracy, LimitsOfPowers) {
    float const values[]{0.f,       -0.f,  1.f,         -1.f,       2.f,           -2.f,       3.f,
                         -3.f,      0.5f,  -0.5f,       2.5f,       -2.5f,         1e-40f,     -1e-40f,
                         0x1p-149f, 1e30f, -1e30f,      16777217.f, 8388607.f,     -8388607.f, INFINITY,
                         -INFINITY, NAN,   0.99999994f, 1.0000001f, 3.4028235e38f, 150.f,      -150.f};
    auto const count = static_cast<int64_t>(std::size(values));
    std::vector<Tensor> inputs{Tensor(DataType::F32, {count * count}), Tensor(DataType::F32, {count * count})};
    auto *x = inputs[0].as<float>(), *y = inputs[1].as<float>();
    for (int64_t i = 0; i < count * count; ++i) x[i] = values[i / count], y[i] = values[i % count];
    for (auto& answer : run_all(power_of_inputs(), inputs, {Tensor(DataType::F32, {count * count})}))
        for (int64_t i = 0; i < count * count; ++i) {
            auto a = answer.outputs[0].as<float>()[i], b = std::pow(x[i], y[i]);
            bool near = std::abs(a - b) <= 2e-7f * std::abs(b) + 0x1p-149f;
            EXPECT_TRUE(a == b || near || (a != a && b != b)) << answer.id << " " << x[i] << "^" << y[i] << " = " << a;
            EXPECT_TRUE(a != a || std::signbit(a) == std::signbit(b)) << answer.id << " " << x[i] << "^" << y[i];
        }
}

using Wide = long double;
Wide wide_sigmoid(Wide x) { return 1 / (1 + std::exp(-x)); }
Wide wide_softplus(Wide x) { return std::max(x, Wide(0)) + std::log1p(std::exp(-std::abs(x))); }

struct WideCase {
    ExprOp op;
    double low, high;  ///< sweep
    double ulps;       ///< bound in units in the last place of an f64 result
    double absolute;   ///< where the result cancels
    Wide (*exact)(Wide);
};
constexpr double kEps64 = 0x1p-53;
WideCase const kWideCases[] = {
    {ExprOp::Exp, -708, 709.7, 1.1, 0, [](Wide x) { return std::exp(x); }},
    {ExprOp::Exp, -1, 1, 1.1, 0, [](Wide x) { return std::exp(x); }},
    {ExprOp::Log, 1e-300, 1e4, 1.1, 0, [](Wide x) { return std::log(x); }},
    {ExprOp::Log, 0.4, 2.5, 1.1, 0, [](Wide x) { return std::log(x); }},
    {ExprOp::Erf, -6.5, 6.5, 3, 0, [](Wide x) { return std::erf(x); }},
    {ExprOp::Tanh, -22, 22, 2.5, 0, [](Wide x) { return std::tanh(x); }},
    {ExprOp::Tanh, -0.7, 0.7, 2.5, 0, [](Wide x) { return std::tanh(x); }},
    {ExprOp::Sigmoid, -700, 700, 2.5, 0, wide_sigmoid},
    {ExprOp::Silu, -40, 40, 3.5, 0, [](Wide x) { return x * wide_sigmoid(x); }},
    {ExprOp::Elu, -100, 5, 1.5, 0, [](Wide x) { return x < 0 ? std::expm1(x) : x; }},
    {ExprOp::Celu, -1, 1, 1.5, 0, [](Wide x) { return x < 0 ? std::expm1(x) : x; }},
    {ExprOp::Softplus, -80, 80, 5, 0, wide_softplus},
    {ExprOp::Mish, -80, 80, 5, 0, [](Wide x) { return x * std::tanh(wide_softplus(x)); }},
    {ExprOp::Sin, -8000, 8000, 1.6, 0, [](Wide x) { return std::sin(x); }},
    {ExprOp::Cos, -8000, 8000, 1.6, 0, [](Wide x) { return std::cos(x); }},
    {ExprOp::Sin, -1e6, 1e6, 1.6, 0, [](Wide x) { return std::sin(x); }},
    {ExprOp::Cos, -1e9, 1e9, 1.6, 0, [](Wide x) { return std::cos(x); }},
    {ExprOp::Sin, -3.2, 3.2, 1.6, 0, [](Wide x) { return std::sin(x); }},
    {ExprOp::Asin, -1, 1, 2.4, 0, [](Wide x) { return std::asin(x); }},
    {ExprOp::Acos, -1, 1, 1.6, 0, [](Wide x) { return std::acos(x); }},
    {ExprOp::Atan, -10, 10, 1.6, 0, [](Wide x) { return std::atan(x); }},
    {ExprOp::Atan, -1e9, 1e9, 1.6, 0, [](Wide x) { return std::atan(x); }},
    {ExprOp::GeluErf, -8, 8, 0, 2 * 2 * kEps64 * 8,
     [](Wide x) { return x * (1 + std::erf(x / std::sqrt(Wide(2)))) / 2; }},
    {ExprOp::GeluTanh, -8, 8, 0, 2 * 2 * kEps64 * 8,
     [](Wide x) {
         return x * (1 + std::tanh(std::sqrt(2 / std::acos(Wide(-1))) * (x + Wide(0.044715) * x * x * x))) / 2;
     }},
    {ExprOp::HardSwish, -8, 8, 0, 2 * kEps64 * 8,
     [](Wide x) { return x * std::clamp(x / 6 + Wide(0.5), Wide(0), Wide(1)); }},
};

TEST(ElementwiseAccuracy, OfF64AgainstF80) {
    if constexpr (std::numeric_limits<Wide>::digits < 64) GTEST_SKIP() << "long double is no more than f64";
    constexpr int64_t kCount = 40007;
    for (auto const& c : kWideCases) {
        ExprInstruction code{c.op, DataType::F64, {0}, 1};
        ElementwiseInfo info{{{ExprOp::Input, DataType::F64, {0}}, code}, {1}};
        std::vector<Tensor> inputs{Tensor(DataType::F64, {kCount})};
        auto* x = inputs[0].as<double>();
        for (int64_t i = 0; i < kCount; ++i) x[i] = c.low + (c.high - c.low) * static_cast<double>(i) / (kCount - 1);
        for (auto& answer : run_all(info, inputs, {Tensor(DataType::F64, {kCount})})) {
            auto* y = answer.outputs[0].as<double>();
            double worst = 0, where = 0;
            for (int64_t i = 0; i < kCount; ++i) {
                auto exact = c.exact(x[i]), error = std::abs(Wide(y[i]) - exact);
                if (error <= c.absolute || std::abs(exact) < 0x1p-1022L) continue;
                auto ulps = static_cast<double>(error / std::ldexp(Wide(1), std::ilogb(exact) - 52));
                if (!(ulps <= worst)) worst = ulps, where = x[i];
            }
            EXPECT_LE(worst, c.ulps) << answer.id << " " << name_of(c.op) << " at " << where;
        }
    }
}

TEST(ElementwiseAccuracy, LimitsOfF64) {
    constexpr double kInf = INFINITY;
    double const values[]{0.,      -0.,  5e-324, -5e-324, 0x1p-1022, 0x1p-1030, 1.,    -1.,    1e300, -1e300, kInf,
                          -kInf,   NAN,  709.78, 709.79,  -708.3,    -745.2,    -746., 1e-200, 38.,   -38.,   0.46875,
                          -0.4688, 5.95, 0.66,   2.4143,  -0.5,      -0.5001,   1.1,   1e22,   2e6};
    for (auto op : {ExprOp::Exp,         ExprOp::Log,       ExprOp::Erf,
                    ExprOp::Tanh,        ExprOp::Sigmoid,   ExprOp::Sin,
                    ExprOp::Cos,         ExprOp::Asin,      ExprOp::Acos,
                    ExprOp::Atan,        ExprOp::Elu,       ExprOp::Celu,
                    ExprOp::Selu,        ExprOp::Silu,      ExprOp::Softplus,
                    ExprOp::Mish,        ExprOp::GeluTanh,  ExprOp::HardSwish,
                    ExprOp::Relu,        ExprOp::LeakyRelu, ExprOp::Sign,
                    ExprOp::Round,       ExprOp::Floor,     ExprOp::Ceil,
                    ExprOp::Sqrt,        ExprOp::Rsqrt,     ExprOp::Abs,
                    ExprOp::Neg,         ExprOp::Softsign,  ExprOp::Reciprocal,
                    ExprOp::HardSigmoid, ExprOp::Shrink,    ExprOp::ThresholdedRelu}) {
        auto count = static_cast<int64_t>(std::size(values));
        ExprInstruction code{op, DataType::F64, {0}};
        code.alpha = 0.75f, code.beta = 0.25f;
        ElementwiseInfo info{{{ExprOp::Input, DataType::F64, {0}}, code}, {1}};
        std::vector<Tensor> inputs{Tensor(DataType::F64, {count})};
        std::copy(std::begin(values), std::end(values), inputs[0].as<double>());
        auto answers = run_all(info, inputs, {Tensor(DataType::F64, {count})});
        for (auto& answer : answers)
            for (int64_t i = 0; i < count; ++i) {
                auto a = answer.outputs[0].as<double>()[i], b = answers.back().outputs[0].as<double>()[i];
                // Below 2^-1022 a sigmoid may be 0.
                auto near = std::abs(a - b) <= 5 * std::numeric_limits<double>::epsilon() * std::abs(b) + 0x1p-1021;
                EXPECT_TRUE(a == b || near || (a != a && b != b))
                    << answer.id << " " << name_of(op) << "(" << values[i] << ") = " << a << ", expected " << b;
                bool odd = op == ExprOp::Sin || op == ExprOp::Asin || op == ExprOp::Atan || op == ExprOp::Tanh ||
                           op == ExprOp::Erf || op == ExprOp::Elu || op == ExprOp::Selu;
                if (odd && values[i] == 0) {
                    EXPECT_EQ(std::signbit(a), std::signbit(b)) << answer.id << " " << name_of(op);
                }
            }
    }
}

TEST(ElementwiseAccuracy, Limits) {
    auto run = [](ExprOp op, float x) {
        ElementwiseInfo info{{{ExprOp::Input, DataType::F32, {0}}, {op, DataType::F32, {0}}}, {1}};
        std::vector<Tensor> inputs{Tensor(DataType::F32, {1}).set<float>({x})};
        auto answers = run_all(info, inputs, {Tensor(DataType::F32, {1})});
        for (auto& answer : answers) {
            auto a = answer.outputs[0].as<float>()[0], b = answers.back().outputs[0].as<float>()[0];
            EXPECT_TRUE(a == b || (a != a && b != b)) << answer.id << " " << name_of(op) << "(" << x << ") = " << a;
        }
        return answers[0].outputs[0].as<float>()[0];
    };
    EXPECT_EQ(run(ExprOp::Sigmoid, 1000), 1.f);
    EXPECT_EQ(run(ExprOp::Sigmoid, -1000), 0.f);
    EXPECT_EQ(run(ExprOp::Exp, 89), INFINITY);
    EXPECT_EQ(run(ExprOp::Exp, -1000), 0.f);
    EXPECT_EQ(run(ExprOp::Round, 2.5f), 2.f);
    EXPECT_EQ(run(ExprOp::Round, -3.5f), -4.f);
    for (auto op : {ExprOp::Tanh, ExprOp::Erf})
        for (auto sign : {1.f, -1.f}) {
            EXPECT_EQ(run(op, sign * INFINITY), sign) << name_of(op);
            EXPECT_EQ(run(op, sign * 9.5f), sign) << name_of(op);
        }
    EXPECT_EQ(run(ExprOp::Tanh, 1e-41f), 1e-41f);
    EXPECT_EQ(run(ExprOp::Exp, -103.f), 0x1p-149f);
    EXPECT_EQ(run(ExprOp::Sigmoid, -INFINITY), 0.f);
    EXPECT_EQ(run(ExprOp::Sigmoid, INFINITY), 1.f);
    EXPECT_EQ(run(ExprOp::Log, 0), -INFINITY);
    EXPECT_EQ(run(ExprOp::Acos, 1), 0.f);
    EXPECT_EQ(run(ExprOp::Acosh, 1), 0.f);
    EXPECT_EQ(run(ExprOp::Acosh, INFINITY), INFINITY);
    for (auto x : {0.99999994f, 0.f, -1.f, -INFINITY}) EXPECT_TRUE(std::isnan(run(ExprOp::Acosh, x))) << x;
    EXPECT_EQ(run(ExprOp::Sinh, 89.5f), INFINITY);
    for (auto sign : {1.f, -1.f}) {
        EXPECT_EQ(run(ExprOp::Atan, sign * INFINITY), sign * 1.57079637f);
        EXPECT_EQ(run(ExprOp::Asin, sign), sign * 1.57079637f);
        for (auto op : {ExprOp::Asin, ExprOp::Atan, ExprOp::Erf, ExprOp::Sin, ExprOp::Tan, ExprOp::Tanh})
            EXPECT_EQ(std::signbit(run(op, sign * 0.f)), sign < 0) << name_of(op);
        for (auto op : {ExprOp::Asin, ExprOp::Atan}) {
            EXPECT_EQ(run(op, sign * 1e-40f), sign * 1e-40f) << name_of(op);
        }
        for (auto op : {ExprOp::Sinh, ExprOp::Asinh, ExprOp::Atanh}) {
            EXPECT_EQ(std::signbit(run(op, sign * 0.f)), sign < 0) << name_of(op);
            EXPECT_EQ(run(op, sign * 1e-30f), sign * 1e-30f) << name_of(op);
        }
        for (auto op : {ExprOp::Sinh, ExprOp::Asinh}) EXPECT_EQ(run(op, sign * INFINITY), sign * INFINITY);
        EXPECT_EQ(run(ExprOp::Atanh, sign), sign * INFINITY);
        EXPECT_EQ(run(ExprOp::Cosh, sign * INFINITY), INFINITY);
        EXPECT_TRUE(std::isnan(run(ExprOp::Atanh, sign * 1.5f)));
        EXPECT_TRUE(std::isnan(run(ExprOp::Tan, sign * INFINITY)));
        for (auto op : {ExprOp::Asin, ExprOp::Acos})
            for (auto x : {1.00000012f, 2.f, INFINITY}) EXPECT_TRUE(std::isnan(run(op, sign * x))) << name_of(op) << x;
    }
    for (auto op : {ExprOp::Relu,      ExprOp::Exp,  ExprOp::Log,      ExprOp::Erf,  ExprOp::Sin,     ExprOp::Tanh,
                    ExprOp::Sigmoid,   ExprOp::Silu, ExprOp::Softplus, ExprOp::Mish, ExprOp::GeluErf, ExprOp::GeluTanh,
                    ExprOp::HardSwish, ExprOp::Sign, ExprOp::Sqrt,     ExprOp::Elu,  ExprOp::Floor,   ExprOp::Asin,
                    ExprOp::Acos,      ExprOp::Atan, ExprOp::Sinh,     ExprOp::Cosh, ExprOp::Asinh,   ExprOp::Acosh,
                    ExprOp::Atanh,     ExprOp::Tan})
        EXPECT_TRUE(std::isnan(run(op, NAN))) << name_of(op);
}

}  // namespace
}  // namespace refactor::kernel
