#include "passes/slice_gathers.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

EdgePtr index(TestGraph& g, int64_t value, Dims const& dims) {
    auto blob = mem_manager::Blob::copy_of(&value, sizeof(value));
    return g.model.graph.add_source({"index", DataType::I64, {dims.begin(), dims.end()}, {}, blob, false});
}

Types types_after(Dims const& x, int64_t axis, int64_t at, Dims const& indices, Dims const& y) {
    TestGraph g(23);
    Shape shape(y.begin(), y.end());
    auto* part = g.add(kernel::GatherInfo{axis}, {g.input({x.begin(), x.end()}), index(g, at, indices)}, shape);
    g.output(g.elementwise(ExprOp::Abs, {part}, shape));
    return compare_passes(g, {x}, 0);
}

TEST(SliceGathers, OneKnownIndex) {
    for (int64_t at : {0, 1, 2, -1, -3}) {
        EXPECT_EQ(count(types_after({3, 4, 5}, 0, at, {}, {4, 5}), "Gather"), 0) << at;
        EXPECT_EQ(count(types_after({4, 3, 5}, 1, at, {}, {4, 5}), "Gather"), 0) << at;
        EXPECT_EQ(count(types_after({4, 5, 3}, 2, at, {1}, {4, 5, 1}), "Gather"), 0) << at;
    }
}

TEST(SliceGathers, LeavesAxesOfUnknownSize) {
    TestGraph g(24);
    auto rows = DimExpr::symbol(g.model.symbols.intern("N"));
    auto* part = g.add(kernel::GatherInfo{0}, {g.input({rows, 5}), index(g, 1, {})}, {5});
    g.output(g.elementwise(ExprOp::Abs, {part}, {5}));
    EXPECT_EQ(count(compare_passes(g, {{3, 5}}, 0), "Gather"), 1);
}

/// Queries, keys and values are thirds of one product, whose axis comes first and is picked from.
TEST(SliceGathers, AttentionReadsThirdsOfAProduct) {
    constexpr int64_t kRows = 24, kHeads = 4, kDepth = 16, kWidth = kHeads * kDepth;
    TestGraph g(25);
    auto* all = g.add(kernel::MatMulInfo{}, {g.input({1, kRows, kWidth}), g.weights({kWidth, 3 * kWidth})},
                      {1, kRows, 3 * kWidth});
    all = g.reshape(all, {1, kRows, 3, kHeads, kDepth});
    all = g.add(kernel::TransposeInfo{{2, 0, 3, 1, 4}}, {all}, {3, 1, kHeads, kRows, kDepth});
    Shape const heads{1, kHeads, kRows, kDepth};
    auto part = [&](int64_t i) { return g.add(kernel::GatherInfo{0}, {all, index(g, i, {})}, heads); };
    auto *q = part(0), *k = part(1), *v = part(2);
    auto* turned = g.add(kernel::TransposeInfo{{0, 1, 3, 2}}, {k}, {1, kHeads, kDepth, kRows});
    auto* scores = g.add(kernel::MatMulInfo{}, {q, turned}, {1, kHeads, kRows, kRows});
    scores = g.elementwise(ExprOp::Mul, {scores, g.scalar(0.25f)}, {1, kHeads, kRows, kRows});
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    auto* weights = g.add(softmax, {scores}, {1, kHeads, kRows, kRows});
    g.output(g.add(kernel::MatMulInfo{}, {weights, v}, heads));
    auto types = compare_passes(g, {{1, kRows, kWidth}}, 1e-5);
    EXPECT_EQ(count(types, "Attention"), 1);
    EXPECT_EQ(count(types, "Transpose") + count(types, "Gather") + count(types, "Slice"), 0);
}

}  // namespace
}  // namespace refactor::computation
