#include "reorder/reorder.h"

#include "common/cpu_features.h"
#include "conv/test_harness.h"

namespace refactor::kernel {
namespace {

using namespace test;

TEST(Reorder, AllCandidatesKeepValuesAndZeroPadding) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 rng(static_cast<uint32_t>(seed));
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    constexpr Layout kLayouts[] = {Layout::Plain, Layout::Blocked8, Layout::Blocked16, Layout::Blocked32};
    ThreadPool pool(2);
    for (int round = 0; round < 40; ++round) {
        Dims dims{pick(1, 3), pick(1, 40)};
        for (int64_t rank = pick(0, 3); rank > 0; --rank) dims.push_back(pick(1, 47));
        if (dims.size() == 5) dims[2] = 2;
        auto t = Tensor::random(dims, rng), rounded = t;
        rounded.round_to_bf16();
        for (auto from : kLayouts)
            for (auto to : kLayouts) {
                SCOPED_TRACE(dims_text(dims) + " " + std::to_string(block_of(from)) + " to " +
                             std::to_string(block_of(to)));
                auto x = argument(t, from);
                auto operand = operand_of(x);
                Operand y;
                static_cast<TensorDesc&>(y) = desc_of(t, to);
                auto const& want = from == Layout::Blocked32 || to == Layout::Blocked32 ? rounded : t;
                auto found = candidates(ReorderInfo{}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 2});
                ASSERT_FALSE(found.kernels.empty());
                bool rounds = block_of(from) * block_of(to) == 32 && (from == Layout::Plain || to == Layout::Plain);
                if (rounds && cpu_features().isa >= Isa::Avx512Bf16) {
                    EXPECT_EQ(found.kernels[0]->id(), "reorder:cpu:transpose:bf16:avx512bf16");
                }
                for (auto const& kernel : found.kernels) {
                    SCOPED_TRACE(kernel->id());
                    Bench bench(*kernel, {x}, y, pool);
                    ASSERT_TRUE(bench.task) << bench.rejection;
                    bench.run();
                    ASSERT_EQ(loaded(bench.output(), dims, to).values, want.values);
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
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937 rng(static_cast<uint32_t>(seed));
    auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng); };
    ThreadPool pool(2);
    for (int round = 0; round < 40; ++round) {
        Dims dims{pick(1, 3), round % 8 ? pick(1, 40) : 2050};
        for (int64_t rank = pick(1, 3); rank > 0; --rank) dims.push_back(pick(1, 23));
        auto front = Tensor::random(dims, rng), last = channels_last(front);
        for (auto layout : {Layout::Blocked8, Layout::Blocked16, Layout::Blocked32})
            for (bool to_blocked : {true, false}) {
                if (layout == Layout::Blocked32 && cpu_features().isa < Isa::Avx512Bf16) continue;
                SCOPED_TRACE(dims_text(dims) + " " + std::to_string(block_of(layout)));
                auto x = to_blocked ? argument(last, Layout::Plain) : argument(front, layout);
                auto operand = operand_of(x);
                Operand y;
                static_cast<TensorDesc&>(y) = to_blocked ? desc_of(front, layout) : desc_of(last, Layout::Plain);
                auto want = to_blocked ? front : last;
                if (layout == Layout::Blocked32) want.round_to_bf16();
                auto found = candidates(ReorderInfo{true}, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 2});
                ASSERT_EQ(found.kernels.size(), 1u);
                Bench bench(*found.kernels[0], {x}, y, pool);
                ASSERT_TRUE(bench.task) << bench.rejection;
                bench.run();
                ASSERT_EQ(loaded(bench.output(), y.dims, y.layout).values, want.values);
            }
    }
}

TEST(Reorder, RoundingKernelsDecline) {
    Operand x, y;
    x.dims = y.dims = {1, 8, 3};
    auto set = [](Operand& operand, DataType dtype, Layout layout) { operand.dtype = dtype, operand.layout = layout; };
    auto why = [&](auto* factory, bool channels_last, Isa isa = Isa::Avx512Bf16) {
        auto kernel = factory(ReorderInfo{channels_last}, {{&x, 1}, {&y, 1}, "cpu", isa, 1});
        return kernel ? std::string("none") : kernel.error().reason;
    };
    set(x, DataType::F32, Layout::Plain), set(y, DataType::BF16, Layout::Blocked32);
    EXPECT_EQ(why(reorder_transpose_bf16, false), "none");
    EXPECT_EQ(why(reorder_transpose_bf16, true), "is for channels in front");
    EXPECT_EQ(why(reorder_channels_last_bf16, true), "none");
    EXPECT_EQ(why(reorder_channels_last_bf16, false), "is for channels at the end");
    EXPECT_EQ(why(reorder_transpose_avx512, false), "expects Y to be f32, got bf16");
    for (auto* factory : {reorder_transpose_bf16, reorder_channels_last_bf16}) {
        bool channels_last = factory == reorder_channels_last_bf16;
        set(x, DataType::F32, Layout::Plain), set(y, DataType::BF16, Layout::Blocked32);
        EXPECT_EQ(why(factory, channels_last, Isa::Avx512), "needs avx512bf16");
        set(x, DataType::F32, Layout::Blocked16);
        EXPECT_EQ(why(factory, channels_last), "is for Plain f32 and blocks of 32 channels of bf16");
        set(x, DataType::BF16, Layout::Plain);
        EXPECT_EQ(why(factory, channels_last), "is for Plain f32 and blocks of 32 channels of bf16");
        set(x, DataType::F16, Layout::Plain);
        EXPECT_EQ(why(factory, channels_last), "expects Y to be f16, got bf16");
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
