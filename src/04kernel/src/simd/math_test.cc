#include "common/cpu_features.h"
#include "simd/math_probe.h"

#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace refactor::kernel {
namespace {

double exact(MathFunction f, double x) {
    switch (f) {
        case MathFunction::Exp:
            return std::exp(x);
        case MathFunction::ExpOfNegative:
            return std::exp(x > 0 ? 0 : x);
        case MathFunction::Exp2OfNegative:
            return std::exp2(x > 0 ? 0 : x);
        case MathFunction::Log:
            return std::log(x);
        case MathFunction::Sigmoid:
            return 1 / (1 + std::exp(-x));
        case MathFunction::Tanh:
            return std::tanh(x);
        case MathFunction::Erf:
            return std::erf(x);
        case MathFunction::GeluErf:
            return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
        case MathFunction::GeluTanh:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    return x;
}

struct Case {
    MathFunction function;
    double ulp;       ///< bound in units in the last place of the result, for normal results
    double absolute;  ///< or bound as a multiple of eps · |x|, where cancellation is in the definition
};

// Every 611th float pattern of either sign (an odd step, so that all mantissa bits vary).
void sweep(void (*probe)(MathFunction, float const*, float*, int64_t), Case c) {
    constexpr int64_t kBatch = 4096;
    std::vector<float> x(kBatch), y(kBatch);
    double worst = 0;
    float worst_x = 0;
    for (uint64_t start = 0; start < (uint64_t(1) << 32); start += kBatch * 611) {
        for (int64_t i = 0; i < kBatch; ++i) {
            auto bits = static_cast<uint32_t>(start + static_cast<uint64_t>(i) * 611);
            std::memcpy(&x[i], &bits, 4);
        }
        probe(c.function, x.data(), y.data(), kBatch);
        for (int64_t i = 0; i < kBatch; ++i) {
            double want = exact(c.function, x[i]);
            if (std::isnan(want)) {
                // inf * 0 in the definition of GELU at -inf is left open.
                ASSERT_TRUE(std::isnan(y[i]) || std::isinf(x[i])) << x[i];
                continue;
            }
            if (std::abs(want) > FLT_MAX) {
                ASSERT_GT(std::abs(y[i]), 3.3e38f) << x[i];
                continue;
            }
            if (std::abs(want) < FLT_MIN && c.absolute == 0) {
                ASSERT_LE(std::abs(y[i]), 2 * FLT_MIN) << x[i];
                continue;
            }
            if (std::isinf(x[i]) && c.absolute > 0) continue;
            double unit =
                c.absolute > 0 ? FLT_EPSILON * std::abs(x[i]) + FLT_MIN : std::ldexp(1., std::ilogb(want) - 23);
            double error = std::abs(y[i] - want) / unit;
            if (!(error <= worst)) worst = error, worst_x = x[i];
        }
    }
    EXPECT_LE(worst, c.absolute > 0 ? c.absolute : c.ulp) << "at " << worst_x;
    std::printf("function %d: largest error %.3f at %g\n", static_cast<int>(c.function), worst, worst_x);
}

constexpr Case kCases[] = {
    {MathFunction::Exp, 1.1, 0},     {MathFunction::ExpOfNegative, 1.1, 0},
    {MathFunction::Log, 1.1, 0},     {MathFunction::Exp2OfNegative, 2.1, 0},
    {MathFunction::Sigmoid, 2.5, 0}, {MathFunction::Tanh, 2.5, 0},
    {MathFunction::Erf, 2.5, 0},     {MathFunction::GeluErf, 0, 1},
    {MathFunction::GeluTanh, 0, 1},
};

#if RG_X86
void check_transpose(void (*probe)(float const*, float*), int n) {
    std::vector<float> x(n * n), y(n * n);
    for (int i = 0; i < n * n; ++i) x[i] = static_cast<float>(i);
    probe(x.data(), y.data());
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) ASSERT_EQ(y[j * n + i], x[i * n + j]);
}

TEST(SimdMath, Avx2) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "this processor lacks AVX2";
    for (auto c : kCases) sweep(math_probe_avx2, c);
    check_transpose(transpose_probe_avx2, 8);
}

TEST(SimdMath, Avx512) {
    if (cpu_features().isa < Isa::Avx512) GTEST_SKIP() << "this processor lacks AVX-512";
    for (auto c : kCases) sweep(math_probe_avx512, c);
    check_transpose(transpose_probe_avx512, 16);
}
#endif

}  // namespace
}  // namespace refactor::kernel
