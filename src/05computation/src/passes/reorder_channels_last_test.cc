#include "passes/reorder_channels_last.h"

#include "common/cpu_features.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::TestGraph;

int64_t count(std::vector<std::string> const& types, char const* type) {
    return std::count(types.begin(), types.end(), type);
}

/// Whether there are blocks of channels to reorder to.
bool applies() { return cpu_features().isa >= Isa::Avx2; }

kernel::ConvInfo convolution() {
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    return conv;
}

/// Tokens [2, 42, 24] convolved as images of 6 × 7.
std::vector<std::string> types_of_tokens(bool shared) {
    TestGraph g(7);
    auto* tokens = g.input({2, 42, 24});
    auto* front = g.add(kernel::TransposeInfo{{0, 2, 1}}, {tokens}, {2, 24, 42});
    auto* image = g.reshape(front, {2, 24, 6, 7});
    auto* y = g.add(convolution(), {image, g.weights({24, 24, 3, 3})}, {2, 24, 6, 7});
    auto* rows = g.reshape(y, {2, 24, 42});
    g.output(g.add(kernel::TransposeInfo{{0, 2, 1}}, {rows}, {2, 42, 24}));
    if (shared) g.output(front), g.output(rows);
    return compare_passes(g, {{2, 42, 24}}, 1e-5);
}

TEST(ReorderChannelsLast, TokensAreReorderedAtOnce) {
    auto types = types_of_tokens(false);
    EXPECT_EQ(count(types, "Transpose"), applies() ? 0 : 2);
    EXPECT_EQ(count(types, "Reorder"), applies() ? 2 : 0);
}

TEST(ReorderChannelsLast, WhatOthersReadStays) {
    auto types = types_of_tokens(true);
    EXPECT_EQ(count(types, "Transpose"), 2);
}

TEST(ReorderChannelsLast, ImagesAreReorderedAtOnce) {
    TestGraph g(8);
    auto* x = g.input({2, 6, 7, 24});
    auto* front = g.add(kernel::TransposeInfo{{0, 3, 1, 2}}, {x}, {2, 24, 6, 7});
    auto* y = g.add(convolution(), {front, g.weights({24, 24, 3, 3})}, {2, 24, 6, 7});
    g.output(g.add(kernel::TransposeInfo{{0, 2, 3, 1}}, {y}, {2, 6, 7, 24}));
    auto types = compare_passes(g, {{2, 6, 7, 24}}, 1e-5);
    EXPECT_EQ(count(types, "Transpose"), applies() ? 0 : 2);
    EXPECT_EQ(count(types, "Reorder"), applies() ? 2 : 0);
}

TEST(ReorderChannelsLast, ActivationsMayLieBetween) {
    for (bool shared : {false, true}) {
        TestGraph g(10);
        auto* tokens = g.input({2, 42, 20});
        auto* front = g.add(kernel::TransposeInfo{{0, 2, 1}}, {tokens}, {2, 20, 42});
        auto* active = g.elementwise(kernel::ExprOp::Sigmoid, {front}, {2, 20, 42});
        active = g.elementwise(kernel::ExprOp::Mul, {active, g.input({1})}, {2, 20, 42});
        kernel::ConvInfo conv;
        conv.window = {{1}, {1}, {1}, {1}};
        g.output(g.add(conv, {active, g.weights({24, 20, 3})}, {2, 24, 42}));
        if (shared) g.output(active);
        auto types = compare_passes(g, {{2, 42, 20}, {1}}, 1e-5);
        EXPECT_EQ(count(types, "Transpose"), shared || !applies());
    }
}

TEST(ReorderChannelsLast, OtherOrdersOfAxesStay) {
    TestGraph g(9);
    auto* x = g.input({2, 6, 7, 24});
    auto* front = g.add(kernel::TransposeInfo{{0, 3, 2, 1}}, {x}, {2, 24, 7, 6});
    auto* y = g.add(convolution(), {front, g.weights({24, 24, 3, 3})}, {2, 24, 7, 6});
    g.output(g.add(kernel::TransposeInfo{{0, 3, 2, 1}}, {y}, {2, 6, 7, 24}));
    EXPECT_EQ(count(compare_passes(g, {{2, 6, 7, 24}}, 1e-5), "Transpose"), 2);
}

}  // namespace

}  // namespace refactor::computation
