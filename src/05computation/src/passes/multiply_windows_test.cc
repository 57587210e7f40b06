#include "passes/multiply_windows.h"

#include "common/cpu_features.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

/// tanh(convolution + bias) without pads.
struct Convolved {
    TestGraph g{41};
    Dims x;

    Convolved(Dims const& x_dims, Dims const& w, int64_t group = 1) : x(x_dims) {
        kernel::ConvInfo conv;
        conv.group = group;
        auto const rank = w.size() - 2;
        conv.window = {Dims(rank, 1), Dims(rank, 1), Dims(rank, 0), Dims(rank, 0)};
        Shape y{x[0], w[0]};
        for (size_t axis = 2; axis < x.size(); ++axis) y.push_back(x[axis] - w[axis] + 1);
        auto* sum = g.add(conv, {g.input({x.begin(), x.end()}), g.weights(w)}, y);
        Dims bias(x.size() - 1, 1);
        bias[0] = w[0];
        sum = g.elementwise(ExprOp::Add, {sum, g.weights(bias)}, y);
        g.output(g.elementwise(ExprOp::Tanh, {sum}, y));
    }
    int multiply() { return multiply_windows(g.model, {CompileOptions{}, cpu_features().isa, 1}); }
};

TEST(MultiplyWindows, OfEverythingOnACpu) {
    for (int64_t batch : {1, 3})
        for (auto const& [x, w] : {std::pair{Dims{batch, 6, 4, 3}, Dims{20, 6, 4, 3}}, {{batch, 5, 7}, {9, 5, 7}}}) {
            Convolved model(x, w);
            auto types = compare_passes(model.g, {x}, 1e-5);
            EXPECT_EQ(count(types, "MatMul"), 1);
            EXPECT_EQ(count(types, "Conv"), 0);
            EXPECT_EQ(count(types, "Elementwise"), 0) << "bias and activation are the product's";
        }
}

TEST(MultiplyWindows, OthersStayConvolutionsOnACpu) {
    EXPECT_EQ(Convolved({1, 6, 4, 3}, {20, 6, 4, 3}).multiply(), 1);
    EXPECT_EQ(Convolved({1, 6, 1, 1}, {20, 6, 1, 1}).multiply(), 0);
    EXPECT_EQ(Convolved({1, 6, 5, 3}, {20, 6, 4, 3}).multiply(), 0);
    EXPECT_EQ(Convolved({1, 6, 4, 3}, {6, 1, 4, 3}, 6).multiply(), 0);
}

}  // namespace
}  // namespace refactor::computation
