#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;

/// A convolution, an activation, and values that scale and shift it.
struct Scaled {
    kernel::ExprOp op;
    std::vector<float> bounds;
    Dims shape;
    std::vector<float> scale, shift;
};

Types compiled(Scaled const& s) {
    TestGraph g{5};
    kernel::ConvInfo conv;
    conv.window = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
    conv.epilogue.bias = true;
    Shape dims{2, 4, 6, 7};
    auto* x = g.add(conv, {g.input(dims), g.weights({4, 4, 3, 3}), g.weights({4})}, dims);
    if (s.op == kernel::ExprOp::Clip)
        x = g.elementwise(s.op, {x, g.scalar(s.bounds[0]), g.scalar(s.bounds[1])}, dims);
    else
        x = g.elementwise(s.op, {x}, dims);
    x = g.elementwise(kernel::ExprOp::Mul, {x, g.constant(s.shape, s.scale)}, dims);
    x = g.elementwise(kernel::ExprOp::Add, {g.constant(s.shape, s.shift), x}, dims);
    g.output(x);
    return compare_passes(g, {{2, 4, 6, 7}}, 1e-5);
}

TEST(FoldAffine, ScaleAndShiftBehindClipsGoBeforeThem) {
    using kernel::ExprOp;
    Dims one{1}, channels{4, 1, 1};
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, one, {1.7F}, {-0.3F}}), "Elementwise"), 0);
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, one, {0.2F}, {0}}), "Elementwise"), 0);
    EXPECT_EQ(count(compiled({ExprOp::Clip, {-1, 2}, one, {1.7F}, {0.4F}}), "Elementwise"), 0);
    EXPECT_EQ(count(compiled({ExprOp::Clip, {-1, 2}, one, {0.5F}, {0}}), "Elementwise"), 0);
    EXPECT_EQ(count(compiled({ExprOp::Clip, {-1, INFINITY}, one, {0.5F}, {0}}), "Elementwise"), 0);
    EXPECT_EQ(count(compiled({ExprOp::Clip, {-INFINITY, 1}, one, {0.5F}, {0}}), "Elementwise"), 0);
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, channels, {3, 3, 3, 3}, {1, 1, 1, 1}}), "Elementwise"), 0);
}

TEST(FoldAffine, OtherScalesStayBehindClips) {
    using kernel::ExprOp;
    Dims one{1}, channels{4, 1, 1};
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, one, {-1.7F}, {0.3F}}), "Elementwise"), 1);
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, one, {0}, {0.3F}}), "Elementwise"), 1);
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, channels, {1, 2, 3, 4}, {1, 1, 1, 1}}), "Elementwise"), 1);
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, channels, {3, 3, 3, 3}, {1, 2, 3, 4}}), "Elementwise"), 1);
    EXPECT_EQ(count(compiled({ExprOp::Sigmoid, {}, one, {1.7F}, {0.3F}}), "Elementwise"), 1);
}

TEST(FoldAffine, ScalesThatLeaveNoWeightInRangeStay) {
    using kernel::ExprOp;
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, Dims{1}, {1e-20F}, {0.3F}}), "Elementwise"), 0);
    EXPECT_EQ(count(compiled({ExprOp::Relu, {}, Dims{1}, {1e-40F}, {0.3F}}), "Elementwise"), 1);
}

}  // namespace

}  // namespace refactor::computation
