#include "common/cpu_features.h"
#include "conv/test_harness.h"

namespace refactor::kernel {
namespace {

using namespace test;

TEST(Reorder, AllCandidatesKeepValuesAndZeroPadding) {
    auto seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    std::mt19937 rng(seed);
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    constexpr Layout kLayouts[] = {Layout::Plain, Layout::Blocked8, Layout::Blocked16};
    ThreadPool pool(2);
    for (int round = 0; round < 40; ++round) {
        Dims dims{pick(1, 3), pick(1, 40)};
        for (int64_t rank = pick(0, 3); rank > 0; --rank) dims.push_back(pick(1, 47));
        if (dims.size() == 5) dims[2] = 2;
        auto t = Tensor::random(dims, rng);
        for (auto from : kLayouts)
            for (auto to : kLayouts) {
                SCOPED_TRACE(dims_text(dims) + " " + std::to_string(block_of(from)) + " to " +
                             std::to_string(block_of(to)));
                auto x = argument(t, from);
                auto operand = operand_of(x);
                Operand y;
                y.dtype = DataType::F32, y.layout = to, y.dims = dims;
                auto found = candidates(ReorderInfo{}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 2});
                ASSERT_FALSE(found.kernels.empty());
                for (auto const& kernel : found.kernels) {
                    SCOPED_TRACE(kernel->id());
                    Bench bench(*kernel, {x}, y, pool);
                    ASSERT_TRUE(bench.task) << bench.rejection;
                    bench.run();
                    ASSERT_EQ(loaded(bench.output(), dims, to).values, t.values);
                }
            }
    }
}

TEST(Reorder, OneChannelIsNotMovedByTheDefinition) {
    auto layout = cpu_features().isa >= Isa::Avx512 ? Layout::Blocked16 : Layout::Blocked8;
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    std::mt19937 rng(3);
    auto x = argument(Tensor::random({1, 1, 60, 70}, rng), layout);
    auto operand = operand_of(x);
    Operand y;
    y.dtype = DataType::F32, y.layout = Layout::Plain, y.dims = {1, 1, 60, 70};
    TensorDesc const *in = &x.desc, *out = &y;
    PackCache packs;
    std::string cheapest;
    double least = INFINITY;
    for (auto const& kernel :
         candidates(ReorderInfo{}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 1}).kernels) {
        auto nanoseconds = kernel->estimate({{&in, 1}, {&out, 1}, {}, packs, 1});
        ASSERT_TRUE(nanoseconds.ok());
        if (*nanoseconds < least) least = *nanoseconds, cheapest = kernel->id();
    }
    EXPECT_TRUE(cheapest.starts_with("reorder:cpu:transpose:")) << cheapest;
}

/// `t` [N, C, …] with its channels at the end, the positions one axis.
Tensor channels_last(Tensor const& t) {
    int64_t images = t.dims[0], channels = t.dims[1], positions = 1;
    for (size_t i = 2; i < t.dims.size(); ++i) positions *= t.dims[i];
    Tensor y({images, positions, channels});
    for (int64_t n = 0; n < images; ++n)
        for (int64_t c = 0; c < channels; ++c)
            for (int64_t p = 0; p < positions; ++p)
                y.values[static_cast<size_t>((n * positions + p) * channels + c)] =
                    t.values[static_cast<size_t>((n * channels + c) * positions + p)];
    return y;
}

TEST(Reorder, ChannelsAtTheEndKeepValuesAndZeroPadding) {
    auto seed = std::random_device{}();
    std::printf("seed %u\n", seed);
    std::mt19937 rng(seed);
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    ThreadPool pool(2);
    for (int round = 0; round < 40; ++round) {
        Dims dims{pick(1, 3), round % 8 ? pick(1, 40) : 2050};
        for (int64_t rank = pick(1, 3); rank > 0; --rank) dims.push_back(pick(1, 23));
        auto front = Tensor::random(dims, rng), last = channels_last(front);
        for (auto layout : {Layout::Blocked8, Layout::Blocked16})
            for (bool to_blocked : {true, false}) {
                SCOPED_TRACE(dims_text(dims) + " " + std::to_string(block_of(layout)));
                auto x = to_blocked ? argument(last, Layout::Plain) : argument(front, layout);
                auto operand = operand_of(x);
                Operand y;
                y.dtype = DataType::F32, y.layout = to_blocked ? layout : Layout::Plain;
                y.dims = to_blocked ? front.dims : last.dims;
                auto found = candidates(ReorderInfo{true}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 2});
                ASSERT_EQ(found.kernels.size(), 1u);
                Bench bench(*found.kernels[0], {x}, y, pool);
                ASSERT_TRUE(bench.task) << bench.rejection;
                bench.run();
                ASSERT_EQ(loaded(bench.output(), y.dims, y.layout).values, (to_blocked ? front : last).values);
            }
    }
}

TEST(Reorder, RefusesChannelsThatAreNoneOfTheOtherSide) {
    ThreadPool pool(1);
    std::mt19937 rng(7);
    auto x = argument(Tensor::random({2, 6, 5}, rng), Layout::Plain);
    auto operand = operand_of(x);
    Operand y;
    y.dtype = DataType::F32, y.layout = Layout::Blocked8, y.dims = {2, 6, 5};
    auto found = candidates(ReorderInfo{true}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 1});
    ASSERT_EQ(found.kernels.size(), 1u);
    Bench bench(*found.kernels[0], {x}, y, pool);
    EXPECT_FALSE(bench.task);
    EXPECT_NE(bench.rejection.find("channels at the end of [2, 6, 5]"), std::string::npos) << bench.rejection;
    y.layout = Layout::Plain;
    EXPECT_TRUE(candidates(ReorderInfo{true}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 1}).kernels.empty());
}

}  // namespace
}  // namespace refactor::kernel
