// Results are compared in matmul_test.cc (`HalvesOfManySizes`): here is what must not reach each other, and refusals.
#include "kernel/ops/matmul.h"
#include "reduce/kernel_test.h"

namespace refactor::kernel::test {
namespace {

TEST(Strassen, SamplesStayApart) {
    std::mt19937 random(seed_of(89));
    auto const sample = 64 * 128, results_of_one = 64 * 256;
    PackCache packs;
    ThreadPool pool(1);
    for (auto const& rows : {Dims{3, 64}, Dims{3, 8, 8}, Dims{3, 1, 4, 16}}) {
        auto a = rows, y = rows;
        a.push_back(128), y.push_back(256);
        std::vector<Tensor> inputs{random_f32(a, random), random_f32({128, 256}, random)},
            outputs{Tensor(DataType::F32, y)};
        auto other = random_f32({sample}, random);
        inputs[1].as_constant();
        auto in = operands_of(inputs), results = operands_of(outputs);
        for (auto const& kernel : candidates(MatMulInfo{}, request_of(in, results, cpu_features().isa, 1)).kernels) {
            run(*kernel, inputs, outputs, packs, pool);
            auto const* now = outputs[0].as<float>();
            std::vector<float> const before(now, now + 3 * results_of_one);
            std::swap_ranges(other.as<float>(), other.as<float>() + sample, inputs[0].as<float>() + sample);
            run(*kernel, inputs, outputs, packs, pool);
            for (auto first : {0, 2 * results_of_one})
                EXPECT_TRUE(std::equal(now + first, now + first + results_of_one, before.begin() + first))
                    << kernel->id() << ", sample from " << first;
            EXPECT_NE(now[results_of_one], before[static_cast<size_t>(results_of_one)]);
        }
    }
}

TEST(Strassen, RowsStayApart) {
    std::mt19937 random(seed_of(90));
    ThreadPool pool(1);
    int64_t const m = 75, n = 200;
    for (int64_t k : {128, 2048}) {
        std::vector<Tensor> inputs{random_f32({1, m, k}, random), random_f32({k, n}, random)},
            outputs{Tensor(DataType::F32, {1, m, n})};
        inputs[1].as_constant();
        std::vector<float> factors(static_cast<size_t>(m), 1);
        factors[0] = factors[62] = 0, factors[7] = 1e-6f, factors[44] = 1e6f, factors[50] = 0x1p-80f;
        factors[20] = std::numeric_limits<float>::quiet_NaN(), factors[58] = std::numeric_limits<float>::infinity();
        for (int64_t i = 0; i < m * k; ++i) inputs[0].as<float>()[i] *= factors[static_cast<size_t>(i / k)];
        auto in = operands_of(inputs), results = operands_of(outputs);
        PackCache packs;
        std::vector<float> exact;
        auto kernels = candidates(MatMulInfo{}, request_of(in, results, cpu_features().isa, 1)).kernels;
        for (auto kernel = kernels.rbegin(); kernel != kernels.rend(); ++kernel) {  // the reference is the last
            run(**kernel, inputs, outputs, packs, pool);
            auto const* y = outputs[0].as<float>();
            if (exact.empty()) exact.assign(y, y + m * n);
            for (int64_t i = 0; i < m; ++i) {
                auto const *row = y + i * n, *expected = exact.data() + i * n;
                if (!std::isfinite(factors[static_cast<size_t>(i)])) {
                    EXPECT_TRUE(std::none_of(row, row + n, [](float x) { return std::isfinite(x); }));
                    continue;
                }
                float largest = 0, error = 0;
                for (int64_t j = 0; j < n; ++j)
                    largest = std::max(largest, std::abs(expected[j])),
                    error = std::max(error, std::abs(row[j] - expected[j]));
                EXPECT_LE(error, 2e-5f * largest) << (*kernel)->id() << ", row " << i;
            }
        }
    }
}

TEST(Strassen, RefusesWhatDoesNotFit) {
    struct {
        Dims a, b;
        bool constant, exact;
        char const* why;
    } const cases[]{{{64, 64}, {64, 128}, true, false, "A is one matrix, whose rows may be samples"},
                    {{1, 64, 64}, {64, 128}, true, true, "has a larger error than exact precision allows"},
                    {{1, 64, 64}, {64, 128}, false, false, "B is not one constant matrix"},
                    {{1, 64, 65}, {65, 128}, true, false, "needs an even K, got 65"},
                    {{1, 64, 64}, {64, 16}, true, false, "needs two panels of columns"},
                    {{1, 47, 64}, {64, 128}, true, false, "needs more rows, got 47"}};
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "no vector kernels";
    for (auto const& c : cases) {
        std::vector<Tensor> inputs{Tensor(DataType::F32, c.a), Tensor(DataType::F32, c.b)},
            outputs{Tensor(DataType::F32, c.a)};
        outputs[0].desc.dims.back() = c.b[1];
        if (c.constant) inputs[1].as_constant();
        auto in = operands_of(inputs), results = operands_of(outputs);
        auto request = request_of(in, results, cpu_features().isa, 1);
        if (c.exact) request.precision = Precision::Exact;
        std::string why;
        auto found = candidates(MatMulInfo{}, request);
        for (auto const& rejection : found.rejections)
            if (rejection.reason.find("strassen") != std::string::npos) why += rejection.reason + "; ";
        PackCache packs;
        TensorDesc const *x[]{&inputs[0].desc, &inputs[1].desc}, *y = &outputs[0].desc;
        for (auto const& kernel : found.kernels)
            if (kernel->id().find("strassen") != std::string::npos)
                if (auto task = kernel->bind({x, {&y, 1}, {}, packs, 1}); !task.ok()) why += task.error().reason;
        EXPECT_NE(why.find(c.why), std::string::npos) << why;
    }
}

}  // namespace
}  // namespace refactor::kernel::test
