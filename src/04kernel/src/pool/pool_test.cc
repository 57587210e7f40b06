#include "pool/pool.h"

#include "common/cpu_features.h"
#include "conv/test_harness.h"

#include <array>
#include <cfloat>
#include <limits>

namespace refactor::kernel {
namespace {

using namespace test;

class PoolTest : public RandomTest {
protected:
    int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng_); }
};

/// Equal (the maximum of nothing is -inf), both NaN, or within the rounding of a mean of `count` values.
void expect_same(Tensor const& got, Tensor const& want, double count, double magnitude) {
    for (size_t i = 0; i < want.values.size(); ++i) {
        if (got.values[i] == want.values[i]) continue;  // infinities, too
        if (std::isnan(want.values[i]))
            ASSERT_TRUE(std::isnan(got.values[i])) << i;
        else if (std::isinf(want.values[i]))
            ASSERT_EQ(got.values[i], want.values[i]) << i;
        else
            ASSERT_NEAR(got.values[i], want.values[i], count * FLT_EPSILON * magnitude) << i;
    }
}

template <class Info>
void check_all(Info const& info, Tensor const& t, Dims const& out, double count, double magnitude) {
    Operand plain;
    plain.dtype = DataType::F32, plain.dims = t.dims;
    Operand y;
    y.dtype = DataType::F32, y.dims = out;
    ThreadPool pool(2);
    auto scalar = candidates(info, {{&plain, 1}, {&y, 1}});
    Bench oracle(*scalar.kernels.back(), {argument(t, Layout::Plain)}, y, pool);
    oracle.run();
    auto want = loaded(oracle.output(), out, Layout::Plain);
    for (auto layout : {Layout::Plain, Layout::Blocked8, Layout::Blocked16}) {
        auto x = argument(t, layout);
        auto operand = operand_of(x);
        y.layout = layout;
        auto found = candidates(info, {{&operand, 1}, {&y, 1}, "cpu", cpu_features().isa, 2});
        ASSERT_FALSE(found.kernels.empty());
        for (auto const& kernel : found.kernels) {
            SCOPED_TRACE(kernel->id() + " " + info.attributes() + " " + dims_text(t.dims) + " block " +
                         std::to_string(block_of(layout)));
            Bench bench(*kernel, {x}, y, pool);
            if (!bench.task) continue;
            bench.run();
            expect_same(loaded(bench.output(), out, layout), want, count, magnitude);
            if (::testing::Test::HasFatalFailure()) return;
        }
    }
}

TEST_F(PoolTest, Windows) {
    for (int round = 0; round < 60; ++round) {
        auto rank = static_cast<size_t>(round % 3 + 1);
        PoolInfo info;
        info.kind = pick(0, 1) ? PoolKind::Max : PoolKind::Average;
        info.count_include_pad = pick(0, 1);
        Dims x{pick(1, 2), pick(1, 37)}, y = x;
        for (size_t i = 0; i < rank; ++i) {
            info.kernel.push_back(pick(1, 4));
            info.window.strides.push_back(pick(1, 3)), info.window.dilations.push_back(pick(1, 2));
            auto reach = info.window.dilations[i] * (info.kernel[i] - 1) + 1;
            info.window.pads_begin.push_back(pick(0, reach - 1)), info.window.pads_end.push_back(pick(0, reach - 1));
            // Sometimes rounded up, as ceil_mode does: the last window, or the only one, then leaves the padded input.
            auto stride = info.window.strides[i], pads = info.window.pads_begin[i] + info.window.pads_end[i];
            auto over = pick(0, 1) ? stride - 1 : 0;
            x.push_back(pick(std::max<int64_t>(1, reach - pads - over), reach + (rank == 3 ? 6 : 30)));
            auto positions = (x.back() + pads - reach + over) / stride + 1;
            // None starts in the right pad.
            y.push_back(std::min(positions, (x.back() + info.window.pads_begin[i] - 1) / stride + 1));
        }
        auto t = Tensor::random(x, rng_);
        if (info.kind == PoolKind::Max) t.values[static_cast<size_t>(pick(0, element_count(x) - 1))] = NAN;
        check_all(info, t, y, info.kind == PoolKind::Max ? 0 : 64, 5);
        if (HasFatalFailure()) return;
    }
}

TEST_F(PoolTest, LargeWindowsOverEveryPosition) {
    for (int round = 0; round < 30; ++round) {
        auto rank = static_cast<size_t>(round % 3 + 1);
        PoolInfo info;
        info.kind = PoolKind::Max;
        Dims x{pick(1, 2), pick(1, 19)}, y = x;
        for (size_t i = 0; i < rank; ++i) {
            bool last = i + 1 == rank;
            info.kernel.push_back(pick(1, 11));
            info.window.strides.push_back(last ? 1 : pick(1, 3)), info.window.dilations.push_back(pick(1, 2));
            auto reach = info.window.dilations[i] * (info.kernel[i] - 1) + 1;
            info.window.pads_begin.push_back(pick(0, reach - 1)), info.window.pads_end.push_back(pick(0, reach - 1));
            // Dense windows may be larger than what they slide over; others would see nothing but padding.
            auto pads = info.window.pads_begin[i] + info.window.pads_end[i];
            auto least = info.window.dilations[i] == 1 ? std::max<int64_t>(1, reach - pads) : reach;
            x.push_back(pick(least, last ? 90 : 25));
            y.push_back((x.back() + pads - reach) / info.window.strides[i] + 1);
        }
        auto t = Tensor::random(x, rng_);
        t.values[static_cast<size_t>(pick(0, element_count(x) - 1))] = NAN;
        check_all(info, t, y, 0, 0);
        if (HasFatalFailure()) return;
    }
}

TEST_F(PoolTest, WidePlanes) {
    for (int round = 0; round < 40; ++round) {
        auto rank = static_cast<size_t>(round % 3 + 1);
        PoolInfo info;
        info.kind = std::array{PoolKind::Max, PoolKind::Average, PoolKind::Sum}[static_cast<size_t>(pick(0, 2))];
        info.count_include_pad = pick(0, 1);
        Dims x{1, pick(1, 3)}, y = x;
        for (size_t i = 0; i < rank; ++i) {
            bool last = i + 1 == rank;
            info.kernel.push_back(pick(1, 9));
            info.window.strides.push_back(pick(1, 4)), info.window.dilations.push_back(pick(1, 2));
            auto reach = info.window.dilations[i] * (info.kernel[i] - 1) + 1;
            info.window.pads_begin.push_back(pick(0, reach - 1)), info.window.pads_end.push_back(pick(0, reach - 1));
            x.push_back(reach +
                        (last ? pick(0, 1) ? pick(1900, 5000) : pick(60, 300) : pick(0, 25 / static_cast<int>(rank))));
            y.push_back(
                (x.back() + info.window.pads_begin[i] + info.window.pads_end[i] - reach) / info.window.strides[i] + 1);
        }
        auto t = Tensor::random(x, rng_);
        if (info.kind == PoolKind::Max && pick(0, 1))
            t.values[static_cast<size_t>(pick(0, element_count(x) - 1))] = NAN;
        // Sums of as many terms as a window has.
        auto count = static_cast<double>(element_count(info.kernel));
        check_all(info, t, y, info.kind == PoolKind::Max ? 0 : count, 5 * (info.kind == PoolKind::Sum ? count : 1));
        if (HasFatalFailure()) return;
    }
}

TEST_F(PoolTest, Global) {
    for (int round = 0; round < 30; ++round) {
        GlobalPoolInfo info{pick(0, 1) ? PoolKind::Max : PoolKind::Average};
        Dims x{pick(1, 3), pick(1, 40)}, y = x;
        for (int i = 0; i < round % 4; ++i) x.push_back(pick(1, 13)), y.push_back(1);
        auto t = Tensor::random(x, rng_);
        if (round % 5 == 0) t.values[static_cast<size_t>(pick(0, element_count(x) - 1))] = NAN;
        check_all(info, t, y, info.kind == PoolKind::Max ? 0 : 64, 5);
        if (HasFatalFailure()) return;
    }
}

/// Maxima and positions of one kernel.
struct Indexed {
    std::vector<float> values;
    std::vector<int64_t> positions;
};
Indexed indexed(Kernel const& kernel, Tensor const& t, Dims const& out, int threads) {
    Operand x, y, indices;
    x.dtype = y.dtype = DataType::F32, indices.dtype = DataType::I64;
    x.dims = t.dims, y.dims = indices.dims = out;
    TensorDesc const *in[] = {&x}, *to[] = {&y, &indices};
    PackCache packs;
    ThreadPool pool(threads);
    auto task = kernel.bind({in, to, {}, packs, threads});
    auto count = static_cast<size_t>(element_count(out));
    Indexed result{std::vector<float>(count), std::vector<int64_t>(count)};
    auto values = t.values;
    void* arguments[] = {values.data(), result.values.data(), result.positions.data()};
    (*task)->run(arguments, runtime::TaskMemory(**task, pool.threads()).context(pool));
    return result;
}

TEST_F(PoolTest, IndicesOfRandomWindows) {
    for (int round = 0; round < 60; ++round) {
        auto rank = static_cast<size_t>(round % 3 + 1);
        PoolInfo info;
        info.kind = PoolKind::Max, info.column_major = pick(0, 1);
        Dims dims{pick(1, 2), pick(1, 19)}, out = dims;
        for (size_t i = 0; i < rank; ++i) {
            info.kernel.push_back(pick(1, 4));
            info.window.strides.push_back(pick(1, 3)), info.window.dilations.push_back(pick(1, 2));
            auto reach = info.window.dilations[i] * (info.kernel[i] - 1) + 1;
            info.window.pads_begin.push_back(pick(0, reach - 1)), info.window.pads_end.push_back(pick(0, reach - 1));
            auto pads = info.window.pads_begin[i] + info.window.pads_end[i];
            dims.push_back(pick(std::max<int64_t>(1, reach - pads), reach + (rank == 3 ? 6 : 30)));
            out.push_back((dims.back() + pads - reach) / info.window.strides[i] + 1);
        }
        auto t = Tensor::random(dims, rng_);
        // Ties, infinities and NaN: the first of the largest counts.
        for (auto& value : t.values) value = std::round(value * 3);
        for (float special : {NAN, -INFINITY, -INFINITY, INFINITY})
            t.values[static_cast<size_t>(pick(0, element_count(dims) - 1))] = special;
        Operand x, y, indices;
        x.dtype = y.dtype = DataType::F32, indices.dtype = DataType::I64;
        x.dims = dims, y.dims = indices.dims = out;
        Operand const outputs[] = {y, indices};
        auto found = candidates(info, {{&x, 1}, outputs, "cpu", cpu_features().isa, 2});
        auto want = indexed(*found.kernels.back(), t, out, 1);
        for (auto const& kernel : found.kernels) {
            auto got = indexed(*kernel, t, out, 2);
            EXPECT_EQ(got.positions, want.positions) << kernel->id() << " " << info.attributes() << dims_text(dims);
            for (size_t i = 0; i < want.values.size(); ++i)
                ASSERT_TRUE(got.values[i] == want.values[i] || std::isnan(want.values[i])) << i;
        }
    }
}

TEST_F(PoolTest, IndexedDeclines) {
    PoolInfo info{PoolKind::Max, {2, 2}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}}};
    auto why = [&](DataType dtype, bool with_indices, Layout layout, Isa isa) {
        Operand x, y, indices;
        x.dtype = y.dtype = dtype, indices.dtype = DataType::I64;
        x.dims = {1, 8, 3, 3}, y.dims = indices.dims = {1, 8, 2, 2};
        x.layout = y.layout = indices.layout = layout;
        Operand const outputs[] = {y, indices};
        auto kernel = pool_indexed_avx2(info, {{&x, 1}, {outputs, with_indices ? 2u : 1u}, "cpu", isa, 1});
        return kernel ? std::string("none") : kernel.error().reason;
    };
    EXPECT_EQ(why(DataType::F32, true, Layout::Plain, Isa::Avx2), "none");
    EXPECT_EQ(why(DataType::F32, true, Layout::Plain, Isa::Scalar), "needs avx2");
    EXPECT_EQ(why(DataType::F32, false, Layout::Plain, Isa::Avx2), "is for maxima with indices");
    EXPECT_EQ(why(DataType::I8, true, Layout::Plain, Isa::Avx2), "handles f32, got i8");
    EXPECT_EQ(why(DataType::F32, true, Layout::Blocked8, Isa::Avx2), "expects X, Y and the indices to be Plain");
}

TEST_F(PoolTest, IndicesAndIntegers) {
    // Source: the example of ONNX MaxPool "maxpool_with_argmax_2d_precomputed_pads" on 5 × 5, values 1 to 25.
    Operand x, y, indices;
    x.dtype = y.dtype = DataType::F32, indices.dtype = DataType::I64;
    x.dims = y.dims = indices.dims = {1, 1, 5, 5};
    PoolInfo info{PoolKind::Max, {5, 5}, {{1, 1}, {1, 1}, {2, 2}, {2, 2}}};
    std::vector<float> values(25), out(25);
    for (size_t i = 0; i < 25; ++i) values[i] = static_cast<float>(i + 1);
    std::vector<int64_t> at(25);
    Operand const outputs[] = {y, indices};
    for (bool column_major : {false, true}) {
        info.column_major = column_major;
        auto found = candidates(info, {{&x, 1}, outputs, "cpu", cpu_features().isa, 1});
        ASSERT_EQ(found.kernels.size(), cpu_features().isa >= Isa::Avx2 ? 2u : 1u);
        for (auto const& kernel : found.kernels) {
            PackCache packs;
            TensorDesc const *in[] = {&x}, *to[] = {&y, &indices};
            auto task = kernel->bind({in, to, {}, packs, 1});
            ASSERT_TRUE(task);
            ThreadPool pool(1);
            void* arguments[] = {values.data(), out.data(), at.data()};
            (*task)->run(arguments, runtime::TaskMemory(**task, pool.threads()).context(pool));
            EXPECT_EQ(out[0], 13);
            EXPECT_EQ(out[24], 25);
            EXPECT_EQ(at[0], 12);
            EXPECT_EQ(at[4], column_major ? 22 : 14);
            EXPECT_EQ(at[24], 24);
        }
    }
    x.dtype = y.dtype = DataType::I8;
    std::vector<int8_t> small(25, -128), pooled(25);
    small[7] = -3;
    auto found = candidates(info, {{&x, 1}, {&y, 1}});
    ASSERT_EQ(found.kernels.size(), 1u);
    PackCache packs;
    TensorDesc const *in[] = {&x}, *to[] = {&y};
    ThreadPool pool(1);
    void* arguments[] = {small.data(), pooled.data()};
    (*found.kernels[0]->bind({in, to, {}, packs, 1}))->run(arguments, {pool, nullptr});
    EXPECT_EQ(pooled[0], -3);
    EXPECT_EQ(pooled[24], -128);
}

}  // namespace
}  // namespace refactor::kernel
