#include "passes/fold_transposes.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

Shape permuted(Dims const& dims, Dims const& perm) {
    Shape shape;
    for (auto axis : perm) shape.push_back(dims[static_cast<size_t>(axis)]);
    return shape;
}

/// A product of A and of B permuted and then times 0.7; both are inputs.
Types types_after(Dims const& a, Dims const& a_perm, Dims const& b, Dims const& b_perm) {
    TestGraph g(11);
    auto *left = g.input({a.begin(), a.end()}), *right = g.input({b.begin(), b.end()});
    auto left_shape = permuted(a, a_perm), right_shape = permuted(b, b_perm);
    if (!std::is_sorted(a_perm.begin(), a_perm.end())) left = g.add(kernel::TransposeInfo{a_perm}, {left}, left_shape);
    right = g.add(kernel::TransposeInfo{b_perm}, {right}, right_shape);
    right = g.elementwise(ExprOp::Mul, {right, g.scalar(0.7f)}, right_shape);
    auto shape = left_shape;
    shape.back() = right_shape.back();
    g.output(g.add(kernel::MatMulInfo{}, {left, right}, shape));
    return compare_passes(g, {a, b}, 1e-6);
}

TEST(FoldTransposes, ProductsReadColumnsAsRows) {
    EXPECT_EQ(types_after({3, 1, 8}, {0, 1, 2}, {3, 11, 8}, {0, 2, 1}), Types{"MatMul"});
    EXPECT_EQ(types_after({3, 8, 5}, {0, 2, 1}, {3, 11, 8}, {0, 2, 1}), Types{"MatMul"});
    EXPECT_EQ(types_after({7, 9}, {1, 0}, {6, 7}, {1, 0}), Types{"MatMul"});
}

TEST(FoldTransposes, OtherAxesStayTransposed) {
    auto types = types_after({2, 3, 5, 8}, {0, 1, 2, 3}, {2, 11, 3, 8}, {0, 2, 3, 1});
    EXPECT_EQ(types, (Types{"Transpose", "MatMul"}));
}

TEST(FoldTransposes, LeavesWhatMovesTheRows) {
    auto types = types_after({8, 5, 6}, {0, 1, 2}, {6, 11, 8}, {2, 0, 1});
    EXPECT_EQ(count(types, "Transpose"), 1);
    EXPECT_EQ(count(types, "Elementwise"), 1);
}

TEST(FoldTransposes, LeavesRowsOfOneMatrix) {
    EXPECT_EQ(count(types_after({2, 6, 5, 4}, {0, 2, 3, 1}, {7, 6}, {1, 0}), "Transpose"), 1);
    TestGraph g(13);
    auto* rows = g.add(kernel::TransposeInfo{{1, 0}}, {g.input({6, 9})}, {9, 6});
    g.output(g.add(kernel::MatMulInfo{}, {rows, g.weights({6, 7})}, {9, 7}));
    EXPECT_EQ(count(compare_passes(g, {{6, 9}}, 1e-6), "Transpose"), 1);
}

TEST(FoldTransposes, LeavesWhatOthersRead) {
    TestGraph g(12);
    auto* columns = g.add(kernel::TransposeInfo{{1, 0}}, {g.input({6, 7})}, {7, 6});
    g.output(g.add(kernel::MatMulInfo{}, {g.input({5, 7}), columns}, {5, 6}));
    g.output(g.elementwise(ExprOp::Abs, {columns}, {7, 6}));
    auto types = compare_passes(g, {{6, 7}, {5, 7}}, 1e-6);
    EXPECT_EQ(count(types, "Transpose"), 1);
}

}  // namespace
}  // namespace refactor::computation
