#include "passes/sink_concats.h"

#include "common/cpu_features.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

/// Two convolutions of 12 and 20 channels, concatenated, then y = act(x · factor + shift).
struct Mixed {
    TestGraph g{21};
    Dims const x{2, 8, 9, 7};
    EdgePtr parts[2], whole;

    Mixed() {
        auto* from = g.input({2, 8, 9, 7});
        int64_t const channels[]{12, 20};
        for (int i = 0; i < 2; ++i) {
            kernel::ConvInfo conv;
            conv.window = {{1, 1}, {1, 1}, {0, 0}, {0, 0}};
            parts[i] = g.add(conv, {from, g.weights({channels[i], 8, 1, 1})}, {2, channels[i], 9, 7});
        }
        kernel::ConcatInfo concat;
        concat.axis = 1;
        whole = g.add(concat, {parts[0], parts[1]}, {2, 32, 9, 7});
    }
    EdgePtr apply(ExprOp op, std::initializer_list<EdgePtr> inputs) { return g.elementwise(op, inputs, {2, 32, 9, 7}); }
    int sink() { return sink_concats(g.model, {CompileOptions{}, cpu_features().isa, 1}); }
    Types run() { return compare_passes(g, {x}, 1e-5); }
};

TEST(SinkConcats, ConvolutionsComputeWhatFollows) {
    Mixed m;
    auto* scaled = m.apply(ExprOp::Mul, {m.whole, m.g.weights({32, 1, 1})});
    auto* shifted = m.apply(ExprOp::Add, {m.g.weights({1, 32, 1, 1}), scaled});
    m.g.output(m.apply(ExprOp::Mul, {shifted, m.apply(ExprOp::Sigmoid, {shifted})}));
    auto types = m.run();
    EXPECT_EQ(count(types, "Elementwise"), 0);
    EXPECT_EQ(count(types, "Conv"), 2);
}

TEST(SinkConcats, ScalarsAreOfEveryPart) {
    Mixed m;
    m.g.output(m.apply(ExprOp::Mul, {m.g.scalar(0.3f), m.whole}));
    m.run();
    Mixed again;
    again.g.output(again.apply(ExprOp::Mul, {again.g.scalar(0.3f), again.whole}));
    EXPECT_EQ(again.sink(), 1);
}

TEST(SinkConcats, WhatOthersReadStays) {
    Mixed piece;
    piece.g.output(piece.apply(ExprOp::Tanh, {piece.whole}));
    piece.g.output(piece.parts[0]);
    EXPECT_EQ(piece.sink(), 0);
    Mixed whole;
    whole.g.output(whole.apply(ExprOp::Tanh, {whole.whole}));
    whole.g.output(whole.apply(ExprOp::Abs, {whole.whole}));
    EXPECT_EQ(whole.sink(), 0);
    Mixed kept;
    kept.whole->value.keep = true;
    kept.g.output(kept.apply(ExprOp::Tanh, {kept.whole}));
    EXPECT_EQ(kept.sink(), 0);
}

TEST(SinkConcats, OtherOperandsStay) {
    Mixed positions;
    positions.g.output(positions.apply(ExprOp::Add, {positions.whole, positions.g.weights({9, 7})}));
    EXPECT_EQ(positions.sink(), 0);
    Mixed given;
    given.g.output(given.apply(ExprOp::Mul, {given.whole, given.g.input({2, 32, 1, 1})}));
    EXPECT_EQ(given.sink(), 0);
}

}  // namespace
}  // namespace refactor::computation
