#include "passes/multiply_taps.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::count;
using test::TestGraph;

// Sums of at most 40 * 9 products in another order.
constexpr double kSums = 400 * 1.2e-7;

/// A transposed convolution of `x` with random weights [C, M, kernel…], activated, on a graph's output.
void deconvolve(TestGraph& g, EdgePtr x, Dims const& w, kernel::Window window, Dims const& extra, bool bias) {
    Shape shape{x->value.shape[0], DimExpr(w[1])};
    for (size_t i = 0; i + 2 < w.size(); ++i)
        shape.push_back((x->value.shape[2 + i] - 1) * window.strides[i] + (w[2 + i] - 1) * window.dilations[i] + 1 +
                        extra[i] - window.pads_begin[i] - window.pads_end[i]);
    kernel::ConvTransposeInfo info;
    info.window = std::move(window), info.epilogue.bias = bias;
    std::vector<EdgePtr> inputs{x, g.weights(w)};
    if (bias) inputs.push_back(g.weights({w[1]}));
    g.output(g.elementwise(kernel::ExprOp::Relu, {g.add(info, inputs, shape)}, shape));
}

/// Whether there is something to gain with these vectors.
bool applies() { return cpu_features().isa >= Isa::Avx2; }

TEST(MultiplyTaps, ComputesTheSame) {
    struct Case {
        Dims x, w;
        kernel::Window window;
        Dims extra;
    };
    for (auto const& c :
         {Case{{2, 40, 7, 9}, {40, 9, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}}, {1, 1}},
          Case{{1, 20, 5, 6}, {20, 2, 5, 4}, {{3, 3}, {1, 1}, {2, 2}, {2, 1}}, {0, 2}},
          Case{{1, 12, 8, 7}, {12, 3, 9, 1}, {{2, 2}, {1, 1}, {4, 0}, {4, 0}}, {0, 1}},
          Case{{1, 12, 11}, {12, 3, 5}, {{2}, {3}, {4}, {3}}, {0}},
          Case{{2, 24, 3, 4, 5}, {24, 9, 3, 2, 3}, {{2, 2, 2}, {1, 1, 1}, {1, 0, 0}, {1, 0, 2}}, {1, 0, 1}}}) {
        TestGraph g(static_cast<uint32_t>(c.w[2]));
        deconvolve(g, g.input(Shape(c.x.begin(), c.x.end())), c.w, c.window, c.extra, c.x[0] == 1);
        EXPECT_EQ(count(compare_passes(g, {c.x}, kSums), "Col2Im"), applies()) << c.w[0] << ' ' << c.w[1];
    }
}

TEST(MultiplyTaps, FollowsSymbols) {
    TestGraph g(7);
    auto length = DimExpr::symbol(g.model.symbols.intern("L"));
    deconvolve(g, g.input({1, 16, length, 4}), {16, 9, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}, true);
    EXPECT_EQ(count(compare_passes(g, {{1, 16, 37, 4}}, kSums), "Col2Im"), applies());
}

TEST(MultiplyTaps, LeavesOthersAlone) {
    // Full blocks; phases that fill blocks when they are merged; few phases, of whose channels lanes are.
    for (auto const& w : {Dims{8, 16, 3, 3}, Dims{8, 8, 4, 4}, Dims{8, 1, 4, 4}}) {
        TestGraph g(8);
        deconvolve(g, g.input({1, 8, 6, 5}), w, {{2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}, true);
        EXPECT_EQ(count(compare_passes(g, {{1, 8, 6, 5}}, kSums), "Col2Im"), 0) << w[1];
    }
}

}  // namespace
}  // namespace refactor::computation
