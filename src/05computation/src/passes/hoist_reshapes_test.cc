#include "passes/hoist_reshapes.h"

#include "common/cpu_features.h"
#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

/// |x| with a factor of shape `factor`, reshaped from `from` to `to`, plus a row.
Types types_after(Dims const& from, Dims const& factor, Dims const& to) {
    TestGraph g(5);
    Shape first(from.begin(), from.end()), second(to.begin(), to.end());
    auto *x = g.input(first), *y = g.input({factor.begin(), factor.end()});
    auto* scaled = g.elementwise(ExprOp::Mul, {g.elementwise(ExprOp::Abs, {x}, first), y}, first);
    g.output(g.elementwise(ExprOp::Add, {g.reshape(scaled, second), g.weights({to.back()})}, second));
    return compare_passes(g, {from, factor}, 1e-6);
}

TEST(HoistReshapes, JoinsWhatTheyPart) {
    for (auto const& [from, factor, to] : std::vector<std::array<Dims, 3>>{
             {{{6, 5, 4}, {6, 1, 4}, {2, 3, 5, 4}}},
             {{{6, 5, 4}, {1, 5, 1}, {2, 3, 5, 4}}},
             {{{2, 3, 5, 4}, {2, 3, 5, 1}, {6, 5, 4}}},
             {{{2, 3, 5, 4}, {1, 1, 5, 4}, {6, 5, 4}}},
             {{{5, 4}, {4}, {1, 5, 4}}},
             {{{6, 4}, {1}, {3, 8}}},
         }) {
        auto types = types_after(from, factor, to);
        EXPECT_EQ(count(types, "Elementwise"), 1) << from.size() << " to " << to.size() << " axes";
    }
}

TEST(HoistReshapes, RepeatsNoOperand) {
    EXPECT_EQ(count(types_after({2, 3, 5, 4}, {2, 1, 5, 4}, {6, 5, 4}), "Elementwise"), 2);
    EXPECT_EQ(count(types_after({6, 4}, {6, 1}, {3, 8}), "Elementwise"), 2);
}

TEST(HoistReshapes, LeavesWhatAProductComputes) {
    TestGraph g(6);
    auto* product = g.add(kernel::MatMulInfo{}, {g.input({6, 8}), g.weights({8, 10})}, {6, 10});
    auto* active = g.elementwise(ExprOp::Tanh, {product}, {6, 10});
    g.output(g.elementwise(ExprOp::Mul, {g.reshape(active, {2, 3, 2, 5}), g.weights({5})}, {2, 3, 2, 5}));
    EXPECT_EQ(hoist_reshapes(g.model, {CompileOptions{}, cpu_features().isa, 1}), 0);
}

TEST(HoistReshapes, FindsAttentionWithTwoMasks) {
    TestGraph g(7);
    auto *q = g.input({6, 5, 8}), *k = g.input({6, 8, 11}), *v = g.input({2, 3, 11, 8});
    auto* product = g.add(kernel::MatMulInfo{}, {q, k}, {6, 5, 11});
    auto* scaled = g.elementwise(ExprOp::Mul, {product, g.scalar(0.3f)}, {6, 5, 11});
    auto* biased = g.elementwise(ExprOp::Add, {scaled, g.input({6, 1, 11})}, {6, 5, 11});
    Shape const scores{2, 3, 5, 11};
    auto* masked = g.elementwise(ExprOp::Add, {g.reshape(biased, scores), g.weights({1, 1, 5, 11})}, scores);
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    g.output(g.add(kernel::MatMulInfo{}, {g.add(softmax, {masked}, scores), v}, {2, 3, 5, 8}));
    auto types = compare_passes(g, {{6, 5, 8}, {6, 8, 11}, {2, 3, 11, 8}, {6, 1, 11}}, 2e-6);
    EXPECT_EQ(count(types, "Attention"), 1);
}

}  // namespace
}  // namespace refactor::computation
