#include "common/cpu_features.h"
#include "conv/test_harness.h"
#include "global_pool/global_pool.h"
#include "pool/pool.h"

#include <cfloat>

namespace refactor::kernel {
namespace {

using namespace test;

class PoolBf16 : public Bf16Test {
protected:
    int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng_); }
};

Operand operand_like(Dims const& dims, Layout layout) {
    Operand operand;
    static_cast<TensorDesc&>(operand) = desc_of(Tensor(dims), layout);
    return operand;
}

/// What the kernel of this id makes of a tensor of bf16 beside what the reference makes of the same numbers.
/// `tolerance`: of a value, relative; a mean's own error is added.
template <class Info>
void check(Info const& info, Tensor t, Dims const& out, Layout result, char const* id, int threads, double tolerance) {
    SCOPED_TRACE(info.attributes() + " " + dims_text(t.dims));
    t.round_to_bf16();
    auto plain = argument(t, Layout::Plain), x = argument(t, Layout::Blocked32);
    auto plain_operand = operand_of(plain), operand = operand_of(x);
    auto plain_y = operand_like(out, Layout::Plain), y = operand_like(out, result);
    ThreadPool pool(threads);
    auto scalar = candidates(info, {{&plain_operand, 1}, {&plain_y, 1}});
    Bench oracle(*scalar.kernels.back(), {plain}, plain_y, pool);
    oracle.run();
    auto want = loaded(oracle.output(), out, Layout::Plain);
    auto found = candidates(info, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, threads});
    ASSERT_FALSE(found.kernels.empty());
    ASSERT_EQ(found.kernels[0]->id(), id);
    Bench bench(*found.kernels[0], {x}, y, pool);
    if (!bench.task) {
        EXPECT_NE(bench.rejection.find("sees only padding"), std::string::npos) << bench.rejection;
        return;
    }
    bench.run();
    auto got = loaded(bench.output(), out, result);
    constexpr double kLargest = 5, kTerms = 64;
    for (size_t i = 0; i < want.values.size(); ++i) {
        if (std::isnan(want.values[i])) {
            ASSERT_TRUE(std::isnan(got.values[i])) << i;
        } else if (got.values[i] != want.values[i]) {
            auto sum = info.kind == PoolKind::Max ? 0 : kTerms * FLT_EPSILON * kLargest;
            ASSERT_NEAR(got.values[i], want.values[i], std::abs(want.values[i]) * tolerance + sum) << i;
        }
    }
}

TEST_F(PoolBf16, Windows) {
    for (int round = 0; round < 120; ++round) {
        auto rank = static_cast<size_t>(round % 3 + 1);
        PoolInfo info;
        info.kind = static_cast<PoolKind>(pick(0, 2)), info.count_include_pad = pick(0, 1);
        Dims x{pick(1, 2), pick(1, 100)}, y = x;
        for (size_t i = 0; i < rank; ++i) {
            info.kernel.push_back(pick(1, 4));
            info.window.strides.push_back(pick(1, 3)), info.window.dilations.push_back(pick(1, 2));
            auto reach = info.window.dilations[i] * (info.kernel[i] - 1) + 1;
            info.window.pads_begin.push_back(pick(0, reach - 1)), info.window.pads_end.push_back(pick(0, reach - 1));
            auto pads = info.window.pads_begin[i] + info.window.pads_end[i];
            x.push_back(pick(std::max<int64_t>(1, reach - pads), reach + (rank == 3 ? 6 : 30)));
            y.push_back((x.back() + pads - reach) / info.window.strides[i] + 1);
        }
        auto t = Tensor::random(x, rng_);
        bool largest = info.kind == PoolKind::Max;
        if (largest) t.values[static_cast<size_t>(pick(0, element_count(x) - 1))] = NAN;
        check(info, t, y, Layout::Blocked32, "pool:cpu:window:bf16:avx512bf16", round % 2 + 1, largest ? 0 : 1. / 256);
        if (HasFatalFailure()) return;
    }
}

TEST_F(PoolBf16, LargestAtEveryPosition) {
    for (int round = 0; round < 60; ++round) {
        auto rank = static_cast<size_t>(round % 3 + 1);
        PoolInfo info;
        Dims x{pick(1, 2), pick(1, 70)}, y = x;
        for (size_t i = 0; i < rank; ++i) {
            bool last = i + 1 == rank;
            info.kernel.push_back(last ? pick(0, 1) * 2 + 3 : pick(1, 5));
            info.window.strides.push_back(last ? 1 : pick(1, 2)), info.window.dilations.push_back(1);
            auto kernel = info.kernel[i];
            info.window.pads_begin.push_back(pick(0, kernel - 1)), info.window.pads_end.push_back(pick(0, kernel - 1));
            auto pads = info.window.pads_begin[i] + info.window.pads_end[i];
            x.push_back(pick(std::max<int64_t>(1, kernel - pads), last ? 50 : 12));
            y.push_back((x.back() + pads - kernel) / info.window.strides[i] + 1);
        }
        auto t = Tensor::random(x, rng_);
        t.values[static_cast<size_t>(pick(0, element_count(x) - 1))] = NAN;
        check(info, t, y, Layout::Blocked32, "pool:cpu:window:bf16:avx512bf16", round % 2 + 1, 0);
        if (HasFatalFailure()) return;
    }
}

TEST_F(PoolBf16, Global) {
    for (int round = 0; round < 60; ++round) {
        GlobalPoolInfo info{pick(0, 1) ? PoolKind::Max : PoolKind::Average};
        Dims x{pick(1, 3), pick(1, 100)}, y = x;
        for (int i = 0; i < round % 4; ++i) x.push_back(pick(1, 13)), y.push_back(1);
        auto t = Tensor::random(x, rng_);
        if (round % 5 == 0) t.values[static_cast<size_t>(pick(0, element_count(x) - 1))] = NAN;
        check(info, t, y, Layout::Blocked16, "global_pool:cpu:vector:bf16:avx512bf16", round % 2 + 1, 0);
        if (HasFatalFailure()) return;
    }
}

TEST_F(PoolBf16, GlobalOfNothing) {
    for (auto kind : {PoolKind::Max, PoolKind::Average})
        check(GlobalPoolInfo{kind}, Tensor({2, 40, 3, 0}), {2, 40, 1, 1}, Layout::Blocked16,
              "global_pool:cpu:vector:bf16:avx512bf16", 2, 0);
}

TEST_F(PoolBf16, Declines) {
    PoolInfo info{PoolKind::Max, {2, 2}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}}};
    auto x = operand_like({1, 8, 3, 3}, Layout::Blocked32), y = operand_like({1, 8, 2, 2}, Layout::Blocked32);
    auto why = [&](Isa isa = Isa::Avx512Bf16) {
        auto kernel = pool_window_bf16(info, {{&x, 1}, {&y, 1}, "cpu", isa, 1});
        return kernel ? std::string("none") : kernel.error().reason;
    };
    EXPECT_EQ(why(), "none");
    EXPECT_EQ(why(Isa::Avx512), "needs avx512bf16");
    y.layout = Layout::Plain;
    EXPECT_EQ(why(), "expects X and Y in blocks of 32 channels");
    y.dtype = DataType::F32;
    EXPECT_EQ(why(), "expects Y to be bf16, got f32");
    x.dtype = DataType::F32;
    EXPECT_EQ(why(), "handles bf16, got f32");
}

TEST_F(PoolBf16, GlobalDeclines) {
    auto x = operand_like({1, 8, 3, 3}, Layout::Blocked32), y = operand_like({1, 8, 1, 1}, Layout::Blocked16);
    auto why = [&](Isa isa = Isa::Avx512Bf16) {
        auto kernel = global_pool_bf16({}, {{&x, 1}, {&y, 1}, "cpu", isa, 1});
        return kernel ? std::string("none") : kernel.error().reason;
    };
    EXPECT_EQ(why(), "none");
    EXPECT_EQ(why(Isa::Avx512), "needs avx512bf16");
    y.layout = Layout::Plain;
    EXPECT_EQ(why(), "expects X of bf16 in blocks of 32 channels, Y of f32 in blocks of 16");
    y.dtype = DataType::BF16;
    EXPECT_EQ(why(), "expects Y to be f32, got bf16");
}

}  // namespace
}  // namespace refactor::kernel
