#include "passes/modulate_channels.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::compare_passes;
using test::TestGraph;

kernel::ConvInfo same(int64_t pad, bool bias = false) {
    kernel::ConvInfo info;
    info.window = {{1, 1}, {1, 1}, {pad, pad}, {pad, pad}};
    info.epilogue.bias = bias;
    return info;
}

/// Conv nodes whose weights are constants.
int64_t with_constant_weights(TestGraph const& g) {
    CompileOptions options;
    options.threads = 1;
    auto program = compile(g.copy(), options).program;
    int64_t found = 0;
    for (auto const& node : program->parts().nodes)
        if (node.type == "Conv" || node.type == "ConvTranspose")
            found += program->parts().edges[node.inputs[1]].constant != nullptr;
    return found;
}

/// Weights [1, M, C, k, k] times styles [1, C], divided by their norm over all but M, as StyleGAN 2 has them.
EdgePtr demodulated(TestGraph& g, EdgePtr weights, EdgePtr style, Dims const& w) {
    Shape const shape(w.begin(), w.end());
    auto* modulated = g.elementwise(ExprOp::Mul, {weights, g.reshape(style, {1, 1, w[2], 1, 1})}, shape);
    auto* squares = g.elementwise(ExprOp::Mul, {modulated, modulated}, shape);
    auto* sums = g.add(kernel::ReduceInfo{kernel::ReduceKind::Sum, {2, 3, 4}}, {squares}, {1, w[1]});
    auto* norm = g.elementwise(ExprOp::Sqrt, {sums}, {1, w[1]});
    return g.elementwise(ExprOp::Div, {modulated, g.reshape(norm, {1, w[1], 1, 1, 1})}, shape);
}

TEST(ModulateChannels, ConvolvesWithTheConstant) {
    for (bool bias : {false, true}) {
        TestGraph g(11);
        auto *x = g.input({2, 12, 9, 7}), *style = g.input({1, 12});
        auto* w = g.reshape(demodulated(g, g.weights({1, 10, 12, 3, 3}), style, {1, 10, 12, 3, 3}), {10, 12, 3, 3});
        std::vector<EdgePtr> inputs{x, w};
        if (bias) inputs.push_back(g.weights({10}));
        g.output(g.add(same(1, bias), inputs, {2, 10, 9, 7}));
        compare_passes(g, {{2, 12, 9, 7}, {1, 12}}, 1e-5);
        EXPECT_EQ(with_constant_weights(g), 1) << "bias " << bias;
    }
}

TEST(ModulateChannels, MovesTheConstantOfATransposedConvolution) {
    TestGraph g(12);
    auto *x = g.input({1, 12, 9, 7}), *style = g.input({1, 12});
    auto* w = demodulated(g, g.weights({1, 10, 12, 3, 3}), style, {1, 10, 12, 3, 3});
    auto* moved = g.add(kernel::TransposeInfo{{0, 2, 1, 3, 4}}, {w}, {1, 12, 10, 3, 3});
    kernel::ConvTransposeInfo conv;
    conv.window = {{2, 2}, {1, 1}, {0, 0}, {0, 0}};
    g.output(g.add(conv, {x, g.reshape(moved, {12, 10, 3, 3})}, {1, 10, 19, 15}));
    compare_passes(g, {{1, 12, 9, 7}, {1, 12}}, 1e-5);
    EXPECT_EQ(with_constant_weights(g), 1);
}

TEST(ModulateChannels, MultipliesInFrontOfWhatEnlarges) {
    TestGraph g(13);
    auto *x = g.input({1, 16, 9, 7}), *style = g.input({16, 1, 1});
    kernel::ResizeInfo resize;
    resize.mode = kernel::ResizeMode::Linear;
    auto* large = g.add(resize, {x}, {1, 16, 18, 14});
    auto* w = g.elementwise(ExprOp::Mul, {g.weights({8, 16, 3, 3}), style}, {8, 16, 3, 3});
    g.output(g.add(same(1), {large, w}, {1, 8, 18, 14}));
    auto types = compare_passes(g, {{1, 16, 9, 7}, {16, 1, 1}}, 1e-5);
    EXPECT_EQ(with_constant_weights(g), 1);
    auto product = std::find(types.begin(), types.end(), "Elementwise");
    EXPECT_LT(product, std::find(types.begin(), types.end(), "Resize"));
}

TEST(ModulateChannels, LeavesImagesLargerThanTheWeights) {
    for (int64_t size : {1, 40}) {
        TestGraph g(14);
        auto *x = g.input({1, 64, size, size}), *style = g.input({64, 1, 1});
        auto* w = g.elementwise(ExprOp::Mul, {g.weights({32, 64, 1, 1}), style}, {32, 64, 1, 1});
        g.output(g.add(same(0), {x, w}, {1, 32, size, size}));
        compare_passes(g, {{1, 64, size, size}, {64, 1, 1}}, 1e-5);
        EXPECT_EQ(with_constant_weights(g), size == 1) << size;
    }
}

TEST(ModulateChannels, LeavesOtherWeightsAlone) {
    struct Case {
        Dims factor;
        ExprOp op;
        bool constant_first;
    };
    for (auto const& c : {Case{{8, 16, 1, 1}, ExprOp::Mul, true}, Case{{3, 3}, ExprOp::Mul, true},
                          Case{{16, 1, 1}, ExprOp::Add, true}, Case{{16, 1, 1}, ExprOp::Div, false}}) {
        TestGraph g(15);
        auto *x = g.input({1, 16, 9, 7}), *factor = g.input(Shape(c.factor.begin(), c.factor.end()));
        auto* constant = g.weights({8, 16, 3, 3});
        auto* w = c.constant_first ? g.elementwise(c.op, {constant, factor}, {8, 16, 3, 3})
                                   : g.elementwise(c.op, {factor, constant}, {8, 16, 3, 3});
        g.output(g.add(same(1), {x, w}, {1, 8, 9, 7}));
        compare_passes(g, {{1, 16, 9, 7}, c.factor}, 1e-4);
        EXPECT_EQ(with_constant_weights(g), 0) << c.factor.size() << " axes";
    }
}

}  // namespace

}  // namespace refactor::computation
