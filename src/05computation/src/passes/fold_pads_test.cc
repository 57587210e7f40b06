#include "passes/fold_pads.h"

#include "common/cpu_features.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/test_graph.h"

#include <limits>

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;
using kernel::PoolKind;

constexpr Dims::value_type kTop = 1, kLeft = 2, kBottom = 2, kRight = 0;

/// [1, C, 9, 8] with rows and columns of `value` around it.
EdgePtr pad(TestGraph& g, EdgePtr x, float value, DimExpr const& channels = 8) {
    return g.add(kernel::PadInfo{}, {x, g.scalar(value)}, {1, channels, 9 + kTop + kBottom, 8 + kLeft + kRight},
                 {0, 0, kTop, kLeft});
}

kernel::Window window(int64_t pads) { return {{1, 1}, {1, 1}, {pads, pads}, {pads, pads}}; }

Types after_pool(PoolKind kind, float value, int64_t pads = 0, bool positive = false, bool include = false) {
    TestGraph g(3);
    auto* x = g.input({1, 8, 9, 8});
    if (positive) x = g.elementwise(ExprOp::Relu, {x}, {1, 8, 9, 8});
    kernel::PoolInfo pool{kind, {3, 3}, window(pads), include};
    g.output(g.add(pool, {pad(g, x, value)}, {1, 8, 10 + 2 * pads, 8 + 2 * pads}));
    return compare_passes(g, {{1, 8, 9, 8}}, 1e-6);
}

Types after_conv(float value, Dims const& dilations, Shape const& result) {
    TestGraph g(4);
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, dilations, {1, 0}, {0, 0}};
    auto* x = g.input({1, 8, 9, 8});
    g.output(g.add(conv, {pad(g, x, value), g.weights({16, 8, 2, 3})}, result));
    return compare_passes(g, {{1, 8, 9, 8}}, 1e-5);
}

TEST(FoldPads, ConvolutionsReachOverTheEdge) {
    // The first row of the window and the pad above it are as high as the window, which is what is not folded.
    EXPECT_EQ(count(after_conv(0, {3, 2}, {1, 16, 10, 6}), "Pad"), 0);
    EXPECT_EQ(count(after_conv(0, {1, 1}, {1, 16, 12, 8}), "Pad"), 1);
    EXPECT_EQ(count(after_conv(0.5f, {3, 2}, {1, 16, 10, 6}), "Pad"), 1);
}

TEST(FoldPads, MaximaOfWhatIsNeverBelow) {
    EXPECT_EQ(count(after_pool(PoolKind::Max, std::numeric_limits<float>::lowest()), "Pad"), 0);
    EXPECT_EQ(count(after_pool(PoolKind::Max, 0, 0, true), "Pad"), 0);
    EXPECT_EQ(count(after_pool(PoolKind::Max, 0), "Pad"), 1);
    EXPECT_EQ(count(after_pool(PoolKind::Max, 0.25f, 0, true), "Pad"), 1);
}

TEST(FoldPads, AveragesCountZeros) {
    EXPECT_EQ(count(after_pool(PoolKind::Average, 0), "Pad"), 0);
    EXPECT_EQ(count(after_pool(PoolKind::Average, 1), "Pad"), 1);
    EXPECT_EQ(count(after_pool(PoolKind::Average, 0, 1), "Pad"), 1);
}

TEST(FoldPads, BehindATranspose) {
    TestGraph g(5);
    auto* x = g.input({1, 9, 8, 6});
    auto* image = g.add(kernel::PadInfo{}, {x}, {1, 10, 9, 6}, {0, 0, 1, 0});
    auto* first = g.add(kernel::TransposeInfo{{0, 3, 1, 2}}, {image}, {1, 6, 10, 9});
    kernel::ConvInfo conv;
    conv.window = {{2, 2}, {1, 1}, {0, 0}, {0, 0}}, conv.group = 6;
    g.output(g.add(conv, {first, g.weights({6, 1, 3, 3})}, {1, 6, 4, 4}));
    EXPECT_EQ(count(compare_passes(g, {{1, 9, 8, 6}}, 1e-6), "Pad"), 0);
}

TEST(FoldPads, ReflectionsBetweenConvolutionsAreNotReordered) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    TestGraph g(7);
    kernel::ConvInfo conv;
    conv.window = window(0);
    auto* first = g.add(conv, {g.input({1, 16, 9, 8}), g.weights({32, 16, 1, 1})}, {1, 32, 9, 8});
    auto* around = g.add(kernel::PadInfo{kernel::PadMode::Reflect}, {first}, {1, 32, 11, 10}, {0, 0, 1, 1});
    g.output(g.add(conv, {around, g.weights({16, 32, 3, 3})}, {1, 16, 9, 8}));
    auto types = compare_passes(g, {{1, 16, 9, 8}}, 1e-5);
    EXPECT_EQ(count(types, "Pad"), 1);
    EXPECT_LE(count(types, "Reorder"), 2);
}

TEST(FoldPads, WideStridesAreCutBefore) {
    TestGraph g(8);
    auto* around = g.add(kernel::PadInfo{}, {g.input({1, 1, 300})}, {1, 1, 320}, {0, 0, 20});
    kernel::ConvInfo conv;
    conv.window = {{40}, {1}, {0}, {0}};
    g.output(g.add(conv, {around, g.weights({8, 1, 80})}, {1, 8, 7}));
    EXPECT_EQ(count(compare_passes(g, {{1, 1, 300}}, 1e-5), "Pad"), 1);
}

TEST(FoldPads, LeavesChannelsAndOtherReaders) {
    TestGraph g(6);
    auto* x = g.input({1, 6, 9, 8});
    auto* more = g.add(kernel::PadInfo{}, {x}, {1, 8, 9, 8}, {0, 1, 0, 0});
    kernel::ConvInfo conv;
    conv.window = window(1);
    auto* image = pad(g, x, 0, 6);
    g.output(g.add(conv, {more, g.weights({5, 8, 3, 3})}, {1, 5, 9, 8}));
    g.output(g.add(conv, {image, g.weights({5, 6, 5, 5})}, {1, 5, 10, 8}));
    g.output(g.elementwise(ExprOp::Abs, {image}, {1, 6, 12, 10}));
    auto types = compare_passes(g, {{1, 6, 9, 8}}, 1e-5);
    EXPECT_EQ(count(types, "Pad"), 2);
    EXPECT_EQ(count(types, "Conv"), 2);
}

TEST(FoldPads, LeavesKeptTensors) {
    TestGraph g(7);
    kernel::ConvInfo conv;
    conv.window = window(0);
    auto* image = pad(g, g.input({1, 8, 9, 8}), 0);
    g.output(g.add(conv, {image, g.weights({5, 8, 3, 3})}, {1, 5, 10, 8}));
    CompileOptions options;
    EXPECT_EQ(count(types_of(*compile(g.copy(), options).program), "Pad"), 0);
    options.keep = {image->value.name};
    EXPECT_EQ(count(types_of(*compile(g.copy(), options).program), "Pad"), 1);
}

}  // namespace
}  // namespace refactor::computation
