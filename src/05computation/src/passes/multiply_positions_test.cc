#include "passes/multiply_positions.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::count;
using test::TestGraph;

// Sums of 20 products in another order.
constexpr double kSums = 20 * 1.2e-7;

kernel::ConvTransposeInfo transposed(int64_t pad, int64_t stride, int64_t dilation = 1) {
    kernel::ConvTransposeInfo info;
    info.window = {{stride, stride}, {dilation, dilation}, {pad, 0}, {pad, 0}};
    return info;
}

TEST(MultiplyPositions, ComputesTheSame) {
    for (bool bias : {false, true})
        for (int64_t pad : {0, 1})
            for (int64_t batch : {1, 3}) {
                TestGraph g(static_cast<uint32_t>(pad * 2 + batch));
                auto info = transposed(pad, 2);
                info.epilogue.bias = bias;
                auto* x = g.input({batch, 20, 1, 1});
                std::vector<EdgePtr> inputs{x, g.weights({20, 7, 4, 3})};
                if (bias) inputs.push_back(g.weights({7}));
                auto* y = g.add(info, inputs, {batch, 7, 4 - 2 * pad, 3});
                g.output(g.elementwise(kernel::ExprOp::Relu, {y}, {batch, 7, 4 - 2 * pad, 3}));
                auto types = compare_passes(g, {{batch, 20, 1, 1}}, kSums);
                EXPECT_EQ(count(types, "MatMul"), 1);
                EXPECT_EQ(count(types, "ConvTranspose"), 0);
            }
}

TEST(MultiplyPositions, FollowsSymbols) {
    TestGraph g(7);
    auto batch = DimExpr::symbol(g.model.symbols.intern("N"));
    auto* x = g.input({batch, 5, 1, 1});
    g.output(g.add(transposed(0, 1), {x, g.weights({5, 3, 4, 4})}, {batch, 3, 4, 4}));
    EXPECT_EQ(count(compare_passes(g, {{2, 5, 1, 1}}, kSums), "MatMul"), 1);
}

TEST(MultiplyPositions, LeavesOthersAlone) {
    struct Case {
        kernel::ConvTransposeInfo info;
        Dims x, y;
    };
    auto grouped = transposed(0, 1);
    grouped.group = 2;
    // Several positions, an output that no tap reaches, taps that are apart, groups.
    for (auto const& c :
         {Case{transposed(0, 2), {1, 4, 1, 2}, {1, 6, 4, 5}}, Case{transposed(0, 2), {1, 4, 1, 1}, {1, 6, 5, 3}},
          Case{transposed(0, 1, 2), {1, 4, 1, 1}, {1, 6, 7, 5}}, Case{grouped, {1, 4, 1, 1}, {1, 12, 4, 3}}}) {
        TestGraph g(8);
        auto* x = g.input(Shape(c.x.begin(), c.x.end()));
        g.output(g.add(c.info, {x, g.weights({4, 6, 4, 3})}, Shape(c.y.begin(), c.y.end())));
        EXPECT_EQ(count(compare_passes(g, {c.x}, kSums), "MatMul"), 0);
    }
}

}  // namespace
}  // namespace refactor::computation
