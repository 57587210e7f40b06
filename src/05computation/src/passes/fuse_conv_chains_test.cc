#include "passes/fuse_conv_chains.h"

#include "common/cpu_features.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using test::compare_passes;
using test::TestGraph;

// Sums of at most 96 products, three stages one after the other.
constexpr double kSums = 3 * 96 * 1.2e-7;

kernel::ConvInfo conv(int64_t group, int64_t pad, int64_t stride = 1) {
    kernel::ConvInfo info;
    info.window = {{stride, stride}, {1, 1}, {pad, pad}, {pad, pad}};
    info.group = group, info.epilogue.bias = true;
    return info;
}

/// An inverted residual block: 1×1 (16 → 96), 3×3 depthwise, 1×1 (96 → 16), with clips between; adds X if its stride is
/// 1.
struct InvertedResidual {
    EdgePtr wide, narrow, y;

    InvertedResidual(TestGraph& g, EdgePtr x, DimExpr const& size, int64_t stride = 1) {
        auto scale = [&](Dims const& dims, float by) {
            auto values = g.random_floats(static_cast<size_t>(element_count(dims)));
            for (auto& v : values) v *= by;
            return g.constant(dims, values);
        };
        auto out = floor_div(size - 1, stride) + 1;
        auto batch = x->value.shape[0];
        auto clip = [&](EdgePtr edge) {
            return g.elementwise(kernel::ExprOp::Clip, {edge, g.scalar(0), g.scalar(6)}, edge->value.shape);
        };
        wide = clip(g.add(conv(1, 0), {x, scale({96, 16, 1, 1}, 0.3f), g.weights({96})}, {batch, 96, size, size}));
        narrow = clip(
            g.add(conv(96, 1, stride), {wide, scale({96, 1, 3, 3}, 0.3f), g.weights({96})}, {batch, 96, out, out}));
        y = g.add(conv(1, 0), {narrow, scale({16, 96, 1, 1}, 0.1f), g.weights({16})}, {batch, 16, out, out});
        if (stride == 1) y = g.elementwise(kernel::ExprOp::Add, {y, x}, y->value.shape);
    }
};

/// Something that blocked layouts pay for on both sides.
EdgePtr first_layer(TestGraph& g, EdgePtr x, DimExpr const& size) {
    return g.add(conv(1, 1), {x, g.weights({16, 3, 3, 3}), g.weights({16})}, {x->value.shape[0], 16, size, size});
}

int64_t count(std::vector<std::string> const& types, std::string_view type) {
    return std::count(types.begin(), types.end(), type);
}

class FuseConvChains : public ::testing::Test {
protected:
    void SetUp() override {
        if (cpu_features().isa < Isa::Avx2) GTEST_SKIP() << "needs AVX2";
    }
    /// Pixels of a side of which 96 channels are well beyond L2.
    int64_t large() const {
        return static_cast<int64_t>(2 * std::sqrt(static_cast<double>(cpu_features().l2) / (96 * sizeof(float))));
    }
};

TEST_F(FuseConvChains, JoinsABlockThatDoesNotFitTheCache) {
    for (int64_t stride : {1, 2}) {
        TestGraph g(static_cast<uint32_t>(stride));
        auto size = large();
        auto* x = g.input({1, 3, size, size});
        g.output(InvertedResidual(g, first_layer(g, x, size), size, stride).y);
        auto types = compare_passes(g, {{1, 3, size, size}}, kSums);
        EXPECT_EQ(count(types, "ConvChain"), 1);
        EXPECT_EQ(count(types, "Conv"), 1);
    }
}

TEST_F(FuseConvChains, LeavesSmallOnesAlone) {
    TestGraph g(3);
    auto* x = g.input({1, 3, 10, 10});
    g.output(InvertedResidual(g, first_layer(g, x, 10), 10).y);
    EXPECT_EQ(count(compare_passes(g, {{1, 3, 10, 10}}, kSums), "ConvChain"), 0);
}

TEST_F(FuseConvChains, ChoosesAgainForEverySize) {
    TestGraph g(4);
    auto size = DimExpr::symbol(g.model.symbols.intern("S"));
    auto* x = g.input({1, 3, size, size});
    g.output(InvertedResidual(g, first_layer(g, x, size), size).y);
    EXPECT_EQ(count(compare_passes(g, {{1, 3, 7, 7}}, kSums), "ConvChain"), 1);
    EXPECT_EQ(count(compare_passes(g, {{1, 3, large(), large()}}, kSums), "ConvChain"), 1);
}

TEST_F(FuseConvChains, KeepsWhatOthersRead) {
    auto size = large();
    TestGraph kept(5);
    auto* x = kept.input({1, 3, size, size});
    InvertedResidual block(kept, first_layer(kept, x, size), size);
    block.wide->value.keep = true;
    kept.output(block.y);
    // The depthwise convolution may still be joined with the one behind it.
    EXPECT_GE(count(compare_passes(kept, {{1, 3, size, size}}, kSums), "Conv"), 2);

    TestGraph shared(6);
    x = shared.input({1, 3, size, size});
    InvertedResidual other(shared, first_layer(shared, x, size), size);
    shared.output(other.y), shared.output(other.wide), shared.output(other.narrow);
    EXPECT_EQ(count(compare_passes(shared, {{1, 3, size, size}}, kSums), "ConvChain"), 0);
}

}  // namespace
}  // namespace refactor::computation
