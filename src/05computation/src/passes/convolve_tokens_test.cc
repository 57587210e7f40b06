#include "passes/convolve_tokens.h"

#include "common/cpu_features.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::compare_passes;
using test::count;
using test::TestGraph;
using test::Types;

struct Block {
    int64_t channels, hidden;
    bool residual = true, shared = false;
};

/// A feed-forward layer of 5 × 7 tokens that convolves in between, as SegFormer has it.
Types after(Block const& b) {
    TestGraph g(12);
    auto batch = DimExpr::symbol(g.model.symbols.intern("N"));
    auto linear = [&](EdgePtr x, int64_t k, int64_t n) {
        Shape shape{batch, 35, n};
        auto* product = g.add(kernel::MatMulInfo{}, {x, g.weights({k, n})}, shape);
        return g.elementwise(ExprOp::Add, {product, g.weights({n})}, shape);
    };
    auto* tokens = g.input({batch, 35, b.channels});
    auto* wide = linear(tokens, b.channels, b.hidden);
    if (b.shared) g.output(wide);
    Shape front{batch, b.hidden, 35}, image{batch, b.hidden, 5, 7};
    kernel::ConvInfo depthwise;
    depthwise.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, depthwise.group = b.hidden;
    auto* x = g.reshape(g.add(kernel::TransposeInfo{{0, 2, 1}}, {wide}, front), image);
    x = g.elementwise(ExprOp::Relu, {g.add(depthwise, {x, g.weights({b.hidden, 1, 3, 3})}, image)}, image);
    x = g.add(kernel::TransposeInfo{{0, 2, 1}}, {g.reshape(x, front)}, {batch, 35, b.hidden});
    x = linear(x, b.hidden, b.channels);
    g.output(b.residual ? g.elementwise(ExprOp::Add, {x, tokens}, {batch, 35, b.channels}) : x);
    return compare_passes(g, {{2, 35, b.channels}}, 1e-5);
}

TEST(ConvolveTokens, ProductsAroundConvolutions) {
    if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs avx2";
    for (bool residual : {false, true}) {
        auto types = after({20, 96, residual});
        EXPECT_EQ(count(types, "MatMul"), 0);
        EXPECT_EQ(count(types, "Transpose"), 0);
        EXPECT_EQ(count(types, "Reorder"), residual ? 3 : 2);
    }
}

TEST(ConvolveTokens, LeavesProductsThatAreFaster) {
    // As many channels on both sides; a reorder that is small beside the product; a result that is read twice.
    EXPECT_EQ(count(after({48, 48}), "MatMul"), 2);
    EXPECT_EQ(count(after({104, 256}), "MatMul"), 2);
    auto shared = after({20, 96, true, true});
    EXPECT_EQ(count(shared, "MatMul"), cpu_features().isa >= Isa::Avx2 ? 1 : 2);
}

}  // namespace

}  // namespace refactor::computation
