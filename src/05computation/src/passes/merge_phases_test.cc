#include "passes/merge_phases.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::TestGraph;

/// Transposed convolution of `x` with random weights [C, M, kernel…] on a graph's output.
EdgePtr deconvolve(TestGraph& g, EdgePtr x, Dims const& w, kernel::Window window, Dims const& extra, bool bias) {
    Shape shape{x->value.shape[0], DimExpr(w[1])};
    for (size_t i = 0; i + 2 < w.size(); ++i)
        shape.push_back((x->value.shape[2 + i] - 1) * window.strides[i] + (w[2 + i] + extra[i]) -
                        (window.pads_begin[i] + window.pads_end[i]));
    kernel::ConvTransposeInfo info;
    info.window = std::move(window), info.epilogue.bias = bias;
    std::vector<EdgePtr> inputs{x, g.weights(w)};
    if (bias) inputs.push_back(g.weights({w[1]}));
    return g.add(info, inputs, shape);
}

/// Whether there is a convolution of phases.
bool merged(std::vector<std::string> const& types) {
    return std::find(types.begin(), types.end(), "Conv") != types.end();
}

bool transposed(std::vector<std::string> const& types) {
    return std::find(types.begin(), types.end(), "ConvTranspose") != types.end();
}

// Sums of at most 20 * 16 products in another order.
constexpr double kSums = 320 * 1.2e-7;

/// Whether there are blocks of channels to fill.
bool applies() { return cpu_features().isa >= Isa::Avx2; }

TEST(MergePhases, ComputesTheSame) {
    struct Case {
        Dims x, w;
        kernel::Window window;
        Dims extra;
    };
    for (auto const& c :
         {Case{{2, 20, 31}, {20, 1, 16}, {{8}, {1}, {0}, {0}}, {0}},
          Case{{1, 7, 12}, {7, 2, 7}, {{4}, {1}, {2}, {1}}, {0}},
          Case{{1, 9, 5, 6}, {9, 3, 4, 4}, {{2, 2}, {1, 1}, {1, 1}, {1, 1}}, {0, 0}},
          Case{{2, 5, 4, 3}, {5, 1, 9, 3}, {{3, 3}, {1, 1}, {4, 1}, {4, 0}}, {2, 0}},
          Case{{1, 6, 3, 2, 4}, {6, 2, 2, 2, 2}, {{2, 2, 2}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}}, {0, 0, 0}}}) {
        TestGraph g(static_cast<uint32_t>(c.w[2]));
        g.output(deconvolve(g, g.input(Shape(c.x.begin(), c.x.end())), c.w, c.window, c.extra, c.x[0] == 1));
        EXPECT_EQ(transposed(compare_passes(g, {c.x}, kSums)), !applies()) << c.w[2];
    }
}

TEST(MergePhases, FollowsSymbols) {
    TestGraph g(7);
    auto length = DimExpr::symbol(g.model.symbols.intern("L"));
    g.output(deconvolve(g, g.input({1, 6, length}), {6, 1, 8}, {{4}, {1}, {2}, {2}}, {0}, true));
    EXPECT_EQ(transposed(compare_passes(g, {{1, 6, 37}}, kSums)), !applies());
}

TEST(MergePhases, LeavesOthersAlone) {
    for (auto const& [w, dilation] : {std::pair{Dims{4, 16, 4}, int64_t{1}}, std::pair{Dims{4, 1, 3}, int64_t{2}}}) {
        TestGraph g(8);
        auto* x = g.input({1, 4, 9});
        kernel::ConvTransposeInfo info;
        info.window = {{2}, {dilation}, {0}, {0}};
        g.output(g.add(info, {x, g.weights(w)}, {1, w[1], 16 + dilation * (w[2] - 1) + 1}));
        EXPECT_FALSE(merged(compare_passes(g, {{1, 4, 9}}, kSums)));
    }
}

}  // namespace
}  // namespace refactor::computation
