#include "common/cpu_features.h"
#include "conv/test_harness.h"
#include "kernel/ops/reduce.h"

namespace refactor::kernel {
namespace {

using namespace test;

Layout blocks() { return cpu_features().isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8; }

/// Candidates for X in `layout`.
Candidates asked(ReduceInfo const& info, Tensor const& x, Layout layout, Dims const& y) {
    std::vector<Operand> operands{operand_of(argument(x, layout))};
    Operand result;
    result.dtype = DataType::F32, result.dims = y;
    return candidates(info, {operands, {&result, 1}, "cpu", cpu_features().isa, 1});
}

/// By the last kernel that accepts X in `layout`.
Tensor reduced(ReduceInfo const& info, Tensor const& x, Layout layout, Dims const& y, ThreadPool& pool) {
    auto found = asked(info, x, layout, y);
    Tensor result(y);
    if (found.kernels.empty()) {
        ADD_FAILURE() << "no kernel for " << info.attributes();
        return result;
    }
    Bench bench(*found.kernels.back(), {argument(x, layout)}, desc_of(result, Layout::Plain), pool);
    if (bench.task)
        bench.run();
    else
        ADD_FAILURE() << bench.rejection;
    return bench.task ? loaded(bench.output(), y, Layout::Plain) : result;
}

TEST(ReduceChannels, AgreesWithTheReference) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    std::mt19937 rng(23);
    struct Case {
        Dims x, y;
    };
    using enum ReduceKind;
    for (auto const& [dims, y] : std::vector<Case>{{{2, 32, 7, 5}, {2, 1, 7, 5}},
                                                   {{1, 64, 31, 29}, {1, 31, 29}},
                                                   {{3, 21, 6}, {3, 1, 6}},
                                                   {{2, 5, 3, 4, 5}, {2, 3, 4, 5}},
                                                   {{1, 16, 1, 1}, {1, 1, 1, 1}}})
        for (int threads : {1, 3}) {
            ThreadPool pool(threads);
            auto x = Tensor::random(dims, rng);
            for (auto kind : {Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSum}) {
                bool zeros_matter = kind == Max || kind == Min || kind == Prod;
                if (zeros_matter && dims[1] % block_of(blocks())) continue;
                ReduceInfo const info{kind, {1}};
                auto operand = kind == LogSum ? x.absolute() : x;
                auto actual = reduced(info, operand, blocks(), y, pool),
                     expected = reduced(info, operand, Layout::Plain, y, pool);
                for (size_t i = 0; i < expected.values.size(); ++i)
                    ASSERT_NEAR(actual.values[i], expected.values[i], 1e-5 * (1 + std::abs(expected.values[i])))
                        << dims_text(dims) << " " << info.attributes() << ", " << threads << " threads, at " << i;
            }
        }
}

TEST(ReduceChannels, RefusesWithAReason) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    std::mt19937 rng(24);
    auto x = Tensor::random({1, 32, 4, 3}, rng);
    auto other = blocks() == Layout::Blocked8 ? Layout::Blocked16 : Layout::Blocked8;
    auto tells = [&](ReduceInfo const& info, Layout layout, std::string_view text) {
        auto found = asked(info, x, layout, {1, 1, 4, 3});
        EXPECT_TRUE(found.kernels.empty());
        for (auto const& rejection : found.rejections)
            if (rejection.reason.find(text) != std::string::npos) return true;
        return false;
    };
    EXPECT_TRUE(tells({ReduceKind::Sum, {1}}, other, "is for blocks of"));
    EXPECT_TRUE(tells({ReduceKind::Sum, {2}}, blocks(), "expected axes=1"));
    EXPECT_TRUE(tells({ReduceKind::LogSumExp, {1}}, blocks(), "LogSumExp"));

    ThreadPool pool(1);
    auto odd = Tensor::random({1, 21, 4, 3}, rng);
    auto found = asked({ReduceKind::Max, {1}}, odd, blocks(), {1, 1, 4, 3});
    ASSERT_EQ(found.kernels.size(), 1u);
    Bench bench(*found.kernels[0], {argument(odd, blocks())}, desc_of(Tensor({1, 1, 4, 3}), Layout::Plain), pool);
    EXPECT_FALSE(bench.task);
    EXPECT_NE(bench.rejection.find("X has 21"), std::string::npos) << bench.rejection;
}

}  // namespace
}  // namespace refactor::kernel
