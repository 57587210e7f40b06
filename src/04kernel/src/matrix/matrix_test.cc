#include "kernel/ops/vision.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

Tensor compute(MatrixKind kind, Tensor const& x, Dims out, int threads) {
    std::vector<Tensor> in{x}, results{Tensor(DataType::F32, out)};
    auto operands = operands_of(in), wanted = operands_of(results);
    auto found = candidates(MatrixInfo{kind}, request_of(operands, wanted, Isa::Scalar, threads));
    EXPECT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    ThreadPool pool(threads);
    run(*found.kernels[0], in, results, packs, pool);
    return results[0];
}

TEST(Matrix, InverseTimesMatrixIsOne) {
    std::mt19937 random(seed_of(35));
    for (int64_t n : {1, 2, 5, 17, 40})
        for (int threads : {1, 3}) {
            auto x = random_f32({5, n, n}, random);
            auto y = compute(MatrixKind::Inverse, x, {5, n, n}, threads);
            for (int64_t m = 0; m < 5; ++m)
                for (int64_t i = 0; i < n; ++i)
                    for (int64_t j = 0; j < n; ++j) {
                        double sum = 0, scale = 0;
                        for (int64_t k = 0; k < n; ++k) {
                            double term = static_cast<double>(x.as<float>()[(m * n + i) * n + k]) *
                                          y.as<float>()[(m * n + k) * n + j];
                            sum += term, scale += std::fabs(term);
                        }
                        // The inverse is exact up to its rounding to f32.
                        EXPECT_NEAR(sum, i == j, 6e-8 * scale + 1e-9) << n << " " << m << " " << i << " " << j;
                    }
        }
}

TEST(Matrix, DeterminantOfTriangles) {
    std::mt19937 random(seed_of(36));
    auto x = random_f32({3, 4, 4}, random);
    double expected[3];
    for (int m = 0; m < 3; ++m) {
        expected[m] = 1;
        for (int i = 0; i < 4; ++i) {
            expected[m] *= x.as<float>()[m * 16 + 5 * i];
            for (int j = 0; j < i; ++j) x.as<float>()[m * 16 + 4 * i + j] = 0;
        }
    }
    auto y = compute(MatrixKind::Determinant, x, {3}, 2);
    for (int m = 0; m < 3; ++m) EXPECT_NEAR(y.as<float>()[m], expected[m], 1e-7 * std::fabs(expected[m]));
}

}  // namespace
}  // namespace refactor::kernel::test
