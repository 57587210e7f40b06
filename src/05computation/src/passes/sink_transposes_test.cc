#include "passes/sink_transposes.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::compare_passes;
using test::TestGraph;

/// [N, 5, 8] transposed to [N, 8, 5].
struct Channels : TestGraph {
    DimExpr n = DimExpr::symbol(model.symbols.intern("N"));
    EdgePtr x = input({n, 5, 8});

    explicit Channels(uint32_t seed) : TestGraph(seed) {}
    EdgePtr transposed(EdgePtr edge) {
        auto const& shape = edge->value.shape;
        return add(kernel::TransposeInfo{{0, 2, 1}}, {edge}, {shape[0], shape[2], shape[1]});
    }
    std::vector<std::string> types() { return compare_passes(*this, {{3, 5, 8}}, 1e-6); }
};

TEST(SinkTransposes, AroundScaleAndOffsetOfChannels) {
    Channels g(1);
    auto* scaled = g.elementwise(ExprOp::Mul, {g.transposed(g.x), g.weights({8, 1})}, {g.n, 8, 5});
    auto* y = g.elementwise(ExprOp::Add, {scaled, g.weights({1, 8, 1})}, {g.n, 8, 5});
    g.output(g.transposed(y));
    EXPECT_EQ(g.types(), std::vector<std::string>{"Elementwise"});
}

TEST(SinkTransposes, OfSeveralOperandsAndOnSeveralAxes) {
    Channels g(2);
    auto* sum = g.elementwise(ExprOp::Add, {g.transposed(g.x), g.transposed(g.input({g.n, 5, 8}))}, {g.n, 8, 5});
    auto* y = g.elementwise(ExprOp::Mul, {g.input({5}), sum}, {g.n, 8, 5});
    y = g.elementwise(ExprOp::Sub, {y, g.scalar(0.5f)}, {g.n, 8, 5});
    g.output(g.transposed(y));
    auto types = compare_passes(g, {{3, 5, 8}, {3, 5, 8}, {5}}, 1e-6);
    EXPECT_EQ(std::count(types.begin(), types.end(), "Transpose"), 0);
}

TEST(SinkTransposes, OfFourAxesThatAreNotTheirOwnInverse) {
    TestGraph g(3);
    auto* x = g.add(kernel::TransposeInfo{{0, 3, 1, 2}}, {g.input({2, 3, 4, 6})}, {2, 6, 3, 4});
    auto* y = g.elementwise(ExprOp::PRelu, {x, g.weights({6, 1, 1})}, {2, 6, 3, 4});
    g.output(g.add(kernel::TransposeInfo{{0, 2, 3, 1}}, {y}, {2, 3, 4, 6}));
    EXPECT_EQ(compare_passes(g, {{2, 3, 4, 6}}, 1e-6), std::vector<std::string>{"Elementwise"});
}

TEST(SinkTransposes, ThatNothingUndoesStay) {
    {
        Channels g(4);  // the result is wanted as it is, too
        auto* y = g.elementwise(ExprOp::Mul, {g.transposed(g.x), g.weights({8, 1})}, {g.n, 8, 5});
        g.output(g.transposed(y));
        g.output(y);
        auto types = g.types();
        EXPECT_EQ(std::count(types.begin(), types.end(), "Transpose"), 2);
    }
    {
        Channels g(5);  // a matrix would have to be transposed instead
        auto* y = g.elementwise(ExprOp::Mul, {g.transposed(g.x), g.input({8, 5})}, {g.n, 8, 5});
        g.output(g.transposed(y));
        auto types = compare_passes(g, {{3, 5, 8}, {8, 5}}, 1e-6);
        EXPECT_EQ(std::count(types.begin(), types.end(), "Transpose"), 2);
    }
}

}  // namespace

}  // namespace refactor::computation
