#include "passes/fuse_epilogues.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;
using test::compare_passes;
using test::count;
using test::TestGraph;
using test::Types;

/// An image [2, 24, 6, 7] convolved, its channels brought to the end: [2, 42, 24].
struct Moved {
    TestGraph g{11};
    EdgePtr front = nullptr, last = nullptr;

    Moved() {
        kernel::ConvInfo conv;
        conv.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
        auto* image = g.add(conv, {g.input({2, 24, 6, 7}), g.weights({24, 24, 3, 3})}, {2, 24, 6, 7});
        front = g.reshape(image, {2, 24, 42});
        last = g.add(kernel::TransposeInfo{{0, 2, 1}}, {front}, {2, 42, 24});
    }
    Types types() { return compare_passes(g, {{2, 24, 6, 7}}, 1e-5); }
};

TEST(FuseEpilogues, ActivationsBehindMovesGoIntoTheConvolution) {
    for (auto op : {ExprOp::Relu, ExprOp::GeluErf, ExprOp::Silu}) {
        Moved m;
        m.g.output(m.g.elementwise(op, {m.last}, {2, 42, 24}));
        EXPECT_EQ(count(m.types(), "Elementwise"), 0) << static_cast<int>(op);
    }
}

TEST(FuseEpilogues, ActivationsOfMovesThatOthersReadStay) {
    Moved m;
    m.g.output(m.front);
    m.g.output(m.g.elementwise(ExprOp::Relu, {m.last}, {2, 42, 24}));
    EXPECT_EQ(count(m.types(), "Elementwise"), 1);
}

TEST(FuseEpilogues, MoreThanAnActivationBehindMovesStays) {
    {
        Moved m;
        auto* other = m.g.weights({2, 42, 24});
        m.g.output(m.g.elementwise(ExprOp::Mul, {m.last, other}, {2, 42, 24}));
        EXPECT_EQ(count(m.types(), "Elementwise"), 1);
    }
    Moved m;
    m.g.output(m.g.elementwise(ExprOp::Abs, {m.last}, {2, 42, 24}));
    EXPECT_EQ(count(m.types(), "Elementwise"), 1);
}

/// HardSwish of a convolution, times and plus values of `shape`.
Types affine_hard_swish(Dims const& shape) {
    TestGraph g{12};
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    Shape dims{2, 24, 6, 7};
    auto* x = g.add(conv, {g.input(dims), g.weights({24, 24, 3, 3})}, dims);
    x = g.elementwise(ExprOp::HardSwish, {x}, dims);
    x = g.elementwise(ExprOp::Mul, {x, g.weights(shape)}, dims);
    x = g.elementwise(ExprOp::Add, {g.weights(shape), x}, dims);
    g.output(g.elementwise(ExprOp::Add, {g.input(dims), x}, dims));
    return compare_passes(g, {{2, 24, 6, 7}, {2, 24, 6, 7}}, 1e-5);
}

TEST(FuseEpilogues, ScaleAndShiftOfHardSwishGoIntoTheConvolution) {
    EXPECT_EQ(count(affine_hard_swish({1}), "Elementwise"), 0);
    EXPECT_EQ(count(affine_hard_swish({24, 1, 1}), "Elementwise"), 1);
}

}  // namespace

}  // namespace refactor::computation
