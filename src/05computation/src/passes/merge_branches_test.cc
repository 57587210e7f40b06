#include "passes/merge_branches.h"

#include "kernel/ops/conv.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::compare_passes;
using test::TestGraph;

// Sums of at most 16 · 9 products in another order, of weights rounded once more.
constexpr double kSums = 1e-5;

struct Geometry {
    Dims kernel, pads, strides{1, 1}, dilations{1, 1};
    int64_t group = 1;
};

class BranchGraph : public TestGraph {
public:
    static constexpr int64_t kChannels = 16;
    Shape y{2, kChannels, 9, 8};
    EdgePtr x;

    BranchGraph() : TestGraph(3), x(input(y)) {}

    EdgePtr conv(Geometry const& g, bool bias = false) {
        kernel::ConvInfo info{{g.strides, g.dilations, g.pads, g.pads}, g.group, {}, false};
        info.epilogue.bias = bias;
        std::vector<EdgePtr> inputs{x, weights({kChannels, kChannels / g.group, g.kernel[0], g.kernel[1]})};
        if (bias) inputs.push_back(weights({kChannels}));
        return add(info, inputs, y);
    }
    EdgePtr scaled() {
        auto* product = elementwise(ExprOp::Mul, {x, weights({kChannels, 1, 1})}, y);
        return elementwise(ExprOp::Add, {product, weights({kChannels, 1, 1})}, y);
    }
    EdgePtr sum(EdgePtr a, EdgePtr b) { return elementwise(ExprOp::Add, {a, b}, y); }
    /// How many convolutions are left when `result` is computed.
    int64_t convolutions(EdgePtr result, Dims const& x_dims = {2, kChannels, 9, 8}) {
        output(result);
        auto types = compare_passes(*this, {x_dims}, kSums);
        return std::count(types.begin(), types.end(), "Conv");
    }
};

TEST(MergeBranches, AddsWeightsOfTheSameWindow) {
    BranchGraph g;
    auto* first = g.sum(g.conv({{3, 3}, {1, 1}}), g.conv({{3, 3}, {1, 1}}, true));
    EXPECT_EQ(g.convolutions(g.sum(first, g.conv({{3, 3}, {1, 1}}, true))), 1);
}

TEST(MergeBranches, PlacesSmallWindowsInLargerOnes) {
    Geometry const large{{3, 5}, {1, 2}};
    for (auto const& small : {Geometry{{1, 1}, {0, 0}}, Geometry{{1, 5}, {0, 2}}, Geometry{{3, 3}, {1, 1}},
                              Geometry{{3, 3}, {1, 2}, {1, 1}, {1, 2}}}) {
        BranchGraph g, h;
        EXPECT_EQ(g.convolutions(g.sum(g.conv(large), g.conv(small, true))), 1) << small.kernel[0] << small.kernel[1];
        EXPECT_EQ(h.convolutions(h.sum(h.conv(small), h.conv(large))), 1) << small.kernel[0] << small.kernel[1];
    }
}

TEST(MergeBranches, TakesWhatScalesChannelsForOneTap) {
    for (int64_t group : {1, 4, 16}) {
        BranchGraph g;
        auto* pair = g.sum(g.conv({{1, 1}, {0, 0}, {1, 1}, {1, 1}, group}), g.scaled());
        EXPECT_EQ(g.convolutions(g.sum(pair, g.conv({{3, 3}, {1, 1}, {1, 1}, {1, 1}, group}))), 1) << group;
    }
}

TEST(MergeBranches, LeavesOthersAlone) {
    {
        BranchGraph g;  // neither window contains the other
        EXPECT_EQ(g.convolutions(g.sum(g.conv({{1, 3}, {0, 1}}), g.conv({{3, 1}, {1, 0}}))), 2);
    }
    {
        BranchGraph g;  // other groups
        EXPECT_EQ(g.convolutions(g.sum(g.conv({{3, 3}, {1, 1}}), g.conv({{3, 3}, {1, 1}, {1, 1}, {1, 1}, 4}))), 2);
    }
    {
        BranchGraph g;  // read twice
        auto* shared = g.conv({{3, 3}, {1, 1}});
        auto* both = g.sum(shared, g.conv({{1, 1}, {0, 0}}));
        g.output(shared);
        EXPECT_EQ(g.convolutions(both), 2);
    }
    {
        BranchGraph g;  // of another tensor
        auto* first = g.conv({{3, 3}, {1, 1}});
        g.x = g.input(g.y);
        g.output(g.sum(first, g.conv({{3, 3}, {1, 1}})));
        Dims dims{2, BranchGraph::kChannels, 9, 8};
        auto types = compare_passes(g, {dims, dims}, kSums);
        EXPECT_EQ(std::count(types.begin(), types.end(), "Conv"), 2);
    }
}

}  // namespace

}  // namespace refactor::computation
