#include "passes/untranspose_convolutions.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::TestGraph;

struct Case {
    Dims x, w;  ///< w: [C, M / group, kernel…]
    kernel::Window window;
    Dims extra;
    int64_t group = 1;
};

EdgePtr deconvolve(TestGraph& g, EdgePtr x, Case const& c, bool bias) {
    auto channels = c.w[1] * c.group;
    Shape shape{x->value.shape[0], DimExpr(channels)};
    for (size_t i = 0; i + 2 < c.w.size(); ++i)
        shape.push_back((x->value.shape[2 + i] - 1) * c.window.strides[i] + c.extra[i] +
                        (c.w[2 + i] - 1) * c.window.dilations[i] + 1 - c.window.pads_begin[i] - c.window.pads_end[i]);
    kernel::ConvTransposeInfo info;
    info.window = c.window, info.epilogue.bias = bias, info.group = c.group;
    std::vector<EdgePtr> inputs{x, g.weights(c.w)};
    if (bias) inputs.push_back(g.weights({channels}));
    return g.add(info, inputs, shape);
}

bool transposed(std::vector<std::string> const& types) {
    return std::find(types.begin(), types.end(), "ConvTranspose") != types.end();
}

// Sums of at most 250 products in another order, some by Winograd's algorithm.
constexpr double kSums = 2e-5;

TEST(UntransposeConvolutions, ComputesTheSame) {
    for (auto const& c : {Case{{2, 5, 31}, {5, 3, 5}, {{1}, {1}, {2}, {2}}, {0}},
                          Case{{1, 10, 9, 7}, {10, 4, 3, 5}, {{1, 1}, {1, 1}, {0, 3}, {2, 1}}, {0, 0}},
                          Case{{2, 6, 8, 5}, {6, 2, 3, 2}, {{1, 1}, {2, 3}, {1, 0}, {4, 3}}, {1, 2}, 3},
                          Case{{1, 12, 6, 9}, {12, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}, 12},
                          Case{{1, 3, 4, 5, 6}, {3, 2, 2, 3, 1}, {{1, 1, 1}, {1, 2, 1}, {1, 0, 0}, {0, 2, 0}}, {}}}) {
        auto full = c;
        full.extra.resize(c.w.size() - 2, 0);
        TestGraph g(static_cast<uint32_t>(c.w[2]));
        g.output(deconvolve(g, g.input(Shape(c.x.begin(), c.x.end())), full, c.x[0] == 1));
        EXPECT_FALSE(transposed(compare_passes(g, {c.x}, kSums))) << c.w[0];
    }
}

TEST(UntransposeConvolutions, FollowsSymbols) {
    TestGraph g(7);
    auto length = DimExpr::symbol(g.model.symbols.intern("L"));
    g.output(deconvolve(g, g.input({1, 6, length}), {{}, {6, 4, 7}, {{1}, {1}, {2}, {1}}, {0}}, true));
    EXPECT_FALSE(transposed(compare_passes(g, {{1, 6, 37}}, kSums)));
}

TEST(UntransposeConvolutions, LeavesOthersAlone) {
    // Pads beyond the reach of the kernel cut off inputs; strides leave gaps, and weights that a run makes are not
    // known.
    for (auto const& c : {Case{{1, 4, 19}, {4, 16, 3}, {{1}, {1}, {3}, {0}}, {0}},
                          Case{{1, 4, 19}, {4, 16, 3}, {{1}, {1}, {0}, {3}}, {0}},
                          Case{{1, 4, 19}, {4, 16, 3}, {{2}, {1}, {0}, {0}}, {0}}}) {
        TestGraph g(8);
        g.output(deconvolve(g, g.input(Shape(c.x.begin(), c.x.end())), c, false));
        EXPECT_TRUE(transposed(compare_passes(g, {c.x}, kSums)));
    }
    TestGraph g(9);
    kernel::ConvTransposeInfo info;
    info.window = {{1}, {1}, {0}, {0}};
    g.output(g.add(info, {g.input({1, 4, 9}), g.input({4, 2, 3})}, {1, 2, 11}));
    EXPECT_TRUE(transposed(compare_passes(g, {{1, 4, 9}, {4, 2, 3}}, kSums)));
}

}  // namespace
}  // namespace refactor::computation
