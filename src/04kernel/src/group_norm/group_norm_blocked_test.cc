#include "common/cpu_features.h"
#include "conv/test_harness.h"
#include "kernel/ops/reduce.h"

namespace refactor::kernel {
namespace {

using namespace test;

/// Y of the best kernel for X in `layout`.
Tensor normalised(GroupNormInfo const& info, Tensor const& x, Tensor const& scale, Tensor const& bias, Layout layout,
                  ThreadPool& pool, std::string_view algorithm) {
    std::vector<Argument> inputs{argument(x, layout), argument(scale, Layout::Plain), argument(bias, Layout::Plain)};
    std::vector<Operand> operands;
    for (auto const& input : inputs) operands.push_back(operand_of(input));
    Operand y;
    y.dtype = DataType::F32, y.layout = layout, y.dims = x.dims;
    auto found = candidates(info, {operands, {&y, 1}, "cpu", cpu_features().isa, pool.threads()});
    for (auto const& kernel : found.kernels) {
        if (kernel->id().find(algorithm) == std::string::npos) continue;
        Bench bench(*kernel, inputs, y, pool);
        if (bench.task) bench.run();
        EXPECT_TRUE(bench.task) << bench.rejection;
        return loaded(bench.output(), x.dims, layout);
    }
    ADD_FAILURE() << "no kernel " << algorithm;
    return x;
}

TEST(GroupNormBlocked, AgreesWithTheDefinition) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    auto layout = cpu_features().isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    std::mt19937 rng(17);
    struct Case {
        Dims dims;
        int64_t groups;
    };
    for (auto const& [dims, groups] : std::vector<Case>{{{2, 32, 7, 5}, 4},
                                                        {{1, 40, 9, 31}, 4},
                                                        {{3, 21, 6}, 0},
                                                        {{1, 30, 5, 4}, 3},
                                                        {{2, 24, 3, 4, 5}, 1},
                                                        {{1, 64, 1, 1}, 16},
                                                        {{2, 6, 17, 33}, 2}})
        for (int threads : {1, 3}) {
            ThreadPool pool(threads);
            auto x = Tensor::random(dims, rng), scale = Tensor::random({dims[1]}, rng),
                 bias = Tensor::random({dims[1]}, rng);
            for (auto& value : x.values) value += 3;
            GroupNormInfo const info{groups, 1e-4f};
            auto actual = normalised(info, x, scale, bias, layout, pool, ":blocked:"),
                 expected = normalised(info, x, scale, bias, Layout::Plain, pool, ":reference:");
            for (size_t i = 0; i < expected.values.size(); ++i)
                ASSERT_NEAR(actual.values[i], expected.values[i], 2e-5 * (1 + std::abs(expected.values[i])))
                    << dims_text(dims) << " in " << groups << " groups, " << threads << " threads, at " << i;
        }
}

TEST(GroupNormBlocked, RefusesOtherLayouts) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    std::mt19937 rng(18);
    auto layout = cpu_features().isa >= Isa::Avx512 ? Layout::Blocked8 : Layout::Blocked16;
    std::vector<Operand> operands{operand_of(argument(Tensor::random({1, 16, 4}, rng), layout)),
                                  operand_of(argument(Tensor::random({16}, rng), Layout::Plain)),
                                  operand_of(argument(Tensor::random({16}, rng), Layout::Plain))};
    Operand y;
    y.dtype = DataType::F32, y.layout = layout, y.dims = {1, 16, 4};
    auto found = candidates(GroupNormInfo{4}, {operands, {&y, 1}, "cpu", cpu_features().isa, 1});
    EXPECT_TRUE(found.kernels.empty());
    bool told = false;
    for (auto const& rejection : found.rejections)
        told |= rejection.reason.find("is for blocks of") != std::string::npos;
    EXPECT_TRUE(told);
}

}  // namespace
}  // namespace refactor::kernel
