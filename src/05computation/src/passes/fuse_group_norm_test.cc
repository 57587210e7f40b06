#include "passes/fuse_group_norm.h"

#include "common/cpu_features.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

/// A convolution of 12 channels, normalised in groups of `merged`, then scaled and shifted by constants of these dims,
/// and convolved again.
Types types_after(Shape const& merged, Dims const& factors, Dims const& terms) {
    TestGraph g(9);
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
    Shape const image{2, 12, 5, 6};
    auto* x = g.add(conv, {g.input(image), g.weights({12, 12, 1, 1})}, image);
    auto groups = *merged[1].constant();
    auto* y = g.add(kernel::GroupNormInfo{0, 1e-3f}, {g.reshape(x, merged), g.weights({groups}), g.weights({groups})},
                    merged);
    y = g.elementwise(ExprOp::Mul, {g.reshape(y, image), g.weights(factors)}, image);
    y = g.elementwise(ExprOp::Add, {y, g.weights(terms)}, image);
    g.output(g.add(conv, {y, g.weights({8, 12, 1, 1})}, {2, 8, 5, 6}));
    return compare_passes(g, {{2, 12, 5, 6}}, 1e-5);
}

TEST(FuseGroupNorm, WithReshapesScaleAndBias) {
    for (auto const& merged : {Shape{2, 4, 90}, Shape{2, 3, 4, 30}, Shape{2, 12, 30}}) {
        auto types = types_after(merged, {12, 1, 1}, {1, 12, 1, 1});
        EXPECT_EQ(count(types, "GroupNorm"), 1);
        EXPECT_EQ(count(types, "Reshape"), 0);
        EXPECT_EQ(count(types, "Elementwise"), 0);
    }
}

TEST(FuseGroupNorm, LeavesFactorsOfPositions) {
    auto types = types_after({2, 4, 90}, {12, 5, 6}, {12, 1, 1});
    EXPECT_EQ(count(types, "Reshape"), 0);
    EXPECT_EQ(count(types, "Elementwise"), 1);
}

TEST(FuseGroupNorm, LeavesGroupsAcrossImages) {
    EXPECT_EQ(count(types_after({1, 8, 90}, {12, 1, 1}, {12, 1, 1}), "Elementwise"), 1);
}

TEST(FuseGroupNorm, BetweenConvolutionsNothingIsReordered) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    TestGraph g(10);
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
    Shape const image{1, 32, 7, 9};
    auto* x = g.add(conv, {g.input(image), g.weights({32, 32, 1, 1})}, image);
    auto* y = g.add(kernel::GroupNormInfo{4}, {x, g.weights({32}), g.weights({32})}, image);
    g.output(g.add(conv, {y, g.weights({32, 32, 1, 1})}, image));
    EXPECT_LE(count(compare_passes(g, {{1, 32, 7, 9}}, 1e-5), "Reorder"), 2);
}

}  // namespace
}  // namespace refactor::computation
