#include "passes/scale_channels.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::count;
using test::TestGraph;

/// A convolution of `x` [1, C, 5, 6] in groups, whose bias is constant.
EdgePtr convolve(TestGraph& g, EdgePtr x, Dims const& w, kernel::Window window, int64_t group, Shape y) {
    kernel::ConvInfo info;
    info.window = std::move(window), info.group = group, info.epilogue.bias = true;
    return g.add(info, {x, g.weights(w), g.weights({w[0]})}, std::move(y));
}

constexpr double kEps = 1.2e-7;

TEST(ScaleChannels, MakesThemElementwise) {
    TestGraph g(1);
    g.output(convolve(g, g.input({1, 7, 5, 6}), {7, 1, 1, 1}, {{1, 1}, {1, 2}, {0, 0}, {0, 0}}, 7, {1, 7, 5, 6}));
    auto types = compare_passes(g, {{1, 7, 5, 6}}, 4 * kEps);
    EXPECT_EQ(count(types, "Conv"), 0);
    EXPECT_EQ(count(types, "Elementwise"), 1);
}

TEST(ScaleChannels, FoldsThemIntoWeights) {
    TestGraph g(2);
    kernel::Window const one{{1, 1}, {1, 1}, {0, 0}, {0, 0}};
    auto* x = convolve(g, g.input({1, 5, 5, 6}), {20, 5, 1, 1}, one, 1, {1, 20, 5, 6});
    g.output(convolve(g, x, {20, 1, 1, 1}, one, 20, {1, 20, 5, 6}));
    auto types = compare_passes(g, {{1, 5, 5, 6}}, 40 * kEps);
    EXPECT_EQ(count(types, "Conv"), 1);
    EXPECT_EQ(count(types, "Elementwise"), 0);
}

TEST(ScaleChannels, LeavesOthersAlone) {
    struct Case {
        Dims w;
        kernel::Window window;
        int64_t group;
        Shape y;
    };
    for (auto const& c : {Case{{6, 1, 1, 1}, {{2, 1}, {1, 1}, {0, 0}, {0, 0}}, 6, {1, 6, 3, 6}},
                          Case{{6, 1, 1, 1}, {{1, 1}, {1, 1}, {0, 1}, {0, 0}}, 6, {1, 6, 5, 7}},
                          Case{{6, 2, 1, 1}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}}, 3, {1, 6, 5, 6}},
                          Case{{12, 1, 1, 1}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}}, 6, {1, 12, 5, 6}},
                          Case{{6, 1, 1, 2}, {{1, 1}, {1, 1}, {0, 0}, {0, 0}}, 6, {1, 6, 5, 5}}}) {
        TestGraph g(3);
        g.output(convolve(g, g.input({1, 6, 5, 6}), c.w, c.window, c.group, c.y));
        EXPECT_EQ(count(compare_passes(g, {{1, 6, 5, 6}}, 20 * kEps), "Conv"), 1) << c.w[0];
    }
}

}  // namespace
}  // namespace refactor::computation
