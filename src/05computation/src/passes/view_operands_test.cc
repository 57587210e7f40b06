#include "passes/test_graph.h"

namespace refactor::computation {

using namespace test;

namespace {

// Sums of at most 64 products, softmax, and again sums.
constexpr double kTolerance = 3e-6;

/// Heads [B, H, S, D] of a product's columns [B, S, H * D].
EdgePtr heads_of(TestGraph& g, EdgePtr x, int64_t heads) {
    auto const& s = x->value.shape;
    auto depth = floor_div(s[2], heads);
    auto* split = g.reshape(x, {s[0], s[1], heads, depth});
    return g.add(kernel::TransposeInfo{{0, 2, 1, 3}}, {split}, {s[0], heads, s[1], depth});
}

/// softmax(Q · Kᵀ) · V, written out; `keys` are transposed.
EdgePtr attend(TestGraph& g, EdgePtr queries, EdgePtr keys, EdgePtr values) {
    auto const &q = queries->value.shape, &k = keys->value.shape;
    Shape scores{q[0], q[1], q[2], k[3]};
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    kernel::MatMulInfo product;
    product.alpha = 0.3f;
    auto* p = g.add(softmax, {g.add(product, {queries, keys}, scores)}, scores);
    return g.add(kernel::MatMulInfo{}, {p, values}, {q[0], q[1], q[2], values->value.shape[3]});
}

/// [B, H, T, D] to [B, H, D, T] by way of matrices, as torch.onnx writes it.
EdgePtr transposed(TestGraph& g, EdgePtr keys) {
    auto const& s = keys->value.shape;
    auto* matrices = g.reshape(keys, {s[0] * s[1], s[2], s[3]});
    auto* turned = g.add(kernel::TransposeInfo{{0, 2, 1}}, {matrices}, {s[0] * s[1], s[3], s[2]});
    return g.reshape(turned, {s[0], s[1], s[3], s[2]});
}

EdgePtr merged(TestGraph& g, EdgePtr y) {
    auto const& s = y->value.shape;
    auto* rows = g.add(kernel::TransposeInfo{{0, 2, 1, 3}}, {y}, {s[0], s[2], s[1], s[3]});
    return g.reshape(rows, {s[0], s[2], s[1] * s[3]});
}

TEST(ViewOperands, OneProductForEach) {
    TestGraph g(31);
    auto s = DimExpr::symbol(g.model.symbols.intern("S"));
    auto* q = heads_of(g, g.input({2, s, 24}), 3);
    auto* k = heads_of(g, g.input({2, 9, 24}), 3);
    auto* v = heads_of(g, g.input({2, 9, 15}), 3);
    g.output(merged(g, attend(g, q, transposed(g, k), v)));
    EXPECT_EQ(compare_passes(g, {{2, 5, 24}, {2, 9, 24}, {2, 9, 15}}, kTolerance), (Types{"Attention", "Reshape"}));
}

/// One product [B, S, 3, H, D], moved as a whole and then cut (timm).
TEST(ViewOperands, SlicesOfOneProduct) {
    TestGraph g(32);
    auto b = DimExpr::symbol(g.model.symbols.intern("B")), s = DimExpr::symbol(g.model.symbols.intern("S"));
    auto* packed = g.reshape(g.input({b, s, 3 * 2 * 8}), {b, s, 3, 2, 8});
    auto* all = g.add(kernel::TransposeInfo{{2, 0, 3, 1, 4}}, {packed}, {3, b, 2, s, 8});
    std::vector<EdgePtr> parts;
    for (int64_t i = 0; i < 3; ++i) {
        auto* part = g.add(kernel::SliceInfo{Dims(5, 1)}, {all}, {1, b, 2, s, 8}, {i, 0, 0, 0, 0});
        parts.push_back(g.reshape(part, {b, 2, s, 8}));
    }
    g.output(merged(g, attend(g, parts[0], transposed(g, parts[1]), parts[2])));
    EXPECT_EQ(compare_passes(g, {{3, 7, 48}}, kTolerance), (Types{"Reshape", "Attention", "Reshape"}));
}

/// One product [B, S, 3 * H * D], cut and then moved (GPT-2).
TEST(ViewOperands, SplitOfOneProduct) {
    TestGraph g(33);
    auto* x = g.input({2, 11, 96});
    auto* node = g.model.graph.insert({"cut", make_operator(kernel::SplitInfo{2})}, {x}, 3);
    std::vector<EdgePtr> parts;
    for (size_t i = 0; i < 3; ++i) {
        node->output(i)->value = {"part" + std::to_string(i), DataType::F32, {2, 11, 32}, {}, nullptr, false};
        parts.push_back(heads_of(g, node->output(i), 4));
    }
    g.output(merged(g, attend(g, parts[0], transposed(g, parts[1]), parts[2])));
    EXPECT_EQ(compare_passes(g, {{2, 11, 96}}, kTolerance), (Types{"Attention", "Reshape"}));
}

/// Keys and values that are outputs as well are computed anyway; depths that are apart cannot be read in place.
TEST(ViewOperands, StaysWhereTensorsAreNeeded) {
    TestGraph g(34);
    auto* q = g.add(kernel::TransposeInfo{{0, 1, 3, 2}}, {g.input({2, 3, 8, 5})}, {2, 3, 5, 8});
    auto* k = heads_of(g, g.input({2, 9, 24}), 3);
    auto* v = heads_of(g, g.input({2, 9, 24}), 3);
    g.output(k), g.output(v);
    g.output(attend(g, q, transposed(g, k), v));
    auto types = compare_passes(g, {{2, 3, 8, 5}, {2, 9, 24}, {2, 9, 24}}, kTolerance);
    EXPECT_EQ(count(types, "Transpose"), 3);
    EXPECT_EQ(count(types, "Attention"), 1);
}

/// Steps and cuts that leave gaps within an axis, or go backwards.
TEST(ViewOperands, CutsOfPositionsAndHeads) {
    for (int64_t step : {1, 2, -1}) {
        TestGraph g(35);
        auto* wide = g.input({2, 20, 4, 8});
        Dims steps{1, step, 1, 1};
        auto* cut = g.add(kernel::SliceInfo{steps}, {wide}, {2, 7, 3, 8}, {0, step < 0 ? 19 : 5, 1, 0});
        auto* v = g.add(kernel::TransposeInfo{{0, 2, 1, 3}}, {cut}, {2, 3, 7, 8});
        auto *q = g.input({2, 3, 5, 8}), *k = g.input({2, 3, 8, 7});
        g.output(attend(g, q, k, v));
        auto types = compare_passes(g, {{2, 20, 4, 8}, {2, 3, 5, 8}, {2, 3, 8, 7}}, kTolerance);
        EXPECT_EQ(types.size(), step == 1 ? 1u : 2u) << step;
    }
}

}  // namespace

}  // namespace refactor::computation
