#include "passes/fuse_attention.h"

#include "passes/test_graph.h"

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

// Sums of at most 11 products, softmax, and again sums.
constexpr double kTolerance = 2e-6;
constexpr int64_t kBatch = 2, kHeads = 3, kQueries = 5, kKeys = 11, kDepth = 8;

enum class Mask { None, OfHeads, OfMatrices, OfAll };

/// softmax(Q · Kᵀ [+ mask]) · V of matrices [B · H, S, D], as bmm takes them; `apart`: B and H are told apart around
/// it.
Types types_after(Mask kind, bool apart, bool symbolic) {
    TestGraph g(43);
    DimExpr s(kQueries);
    if (symbolic) s = DimExpr::symbol(g.model.symbols.intern("S"));
    constexpr int64_t kMatrices = kBatch * kHeads;
    auto matrices = [&](DimExpr rows) {
        if (!apart) return g.input({kMatrices, rows, kDepth});
        auto* x = g.input({kBatch, rows, kHeads, kDepth});
        auto* heads = g.add(kernel::TransposeInfo{{0, 2, 1, 3}}, {x}, {kBatch, kHeads, rows, kDepth});
        return g.reshape(heads, {kMatrices, rows, kDepth});
    };
    auto *q = matrices(s), *k = matrices(kKeys), *v = matrices(kKeys);
    auto* keys = g.add(kernel::TransposeInfo{{0, 2, 1}}, {k}, {kMatrices, kDepth, kKeys});
    kernel::MatMulInfo product;
    product.alpha = 0.3f;
    auto* scores = g.add(product, {q, keys}, {kMatrices, s, kKeys});
    std::vector<Dims> dims;
    for (auto rows : {kQueries, kKeys, kKeys})
        dims.push_back(apart ? Dims{kBatch, rows, kHeads, kDepth} : Dims{kMatrices, rows, kDepth});
    if (kind == Mask::OfHeads) {
        auto* split = g.reshape(scores, {kBatch, kHeads, s, kKeys});
        auto* masked = g.elementwise(ExprOp::Add, {split, g.input({kBatch, 1, s, kKeys})}, {kBatch, kHeads, s, kKeys});
        scores = g.reshape(masked, {kMatrices, s, kKeys});
        dims.push_back({kBatch, 1, kQueries, kKeys});
    } else if (kind != Mask::None) {
        int64_t leading = kind == Mask::OfAll ? 1 : kMatrices;
        scores = g.elementwise(ExprOp::Add, {g.input({leading, s, kKeys}), scores}, {kMatrices, s, kKeys});
        dims.push_back({leading, kQueries, kKeys});
    }
    kernel::SoftmaxInfo softmax;
    softmax.axis = 2;
    auto* p = g.add(softmax, {scores}, {kMatrices, s, kKeys});
    auto* y = g.add(kernel::MatMulInfo{}, {p, v}, {kMatrices, s, kDepth});
    g.output(apart ? g.reshape(y, {kBatch, kHeads, s, kDepth}) : y);
    return compare_passes(g, dims, kTolerance);
}

TEST(FuseAttention, MatricesOfHeads) {
    for (auto kind : {Mask::None, Mask::OfHeads, Mask::OfMatrices, Mask::OfAll})
        for (bool apart : {false, true})
            for (bool symbolic : {false, true}) {
                auto types = types_after(kind, apart, symbolic);
                std::erase(types, "Reshape");
                EXPECT_EQ(types, (Types{"Attention"})) << static_cast<int>(kind) << apart << symbolic;
            }
}

/// softmax(Q · Kᵀ) · V of 6 heads, which K gets by repeating each of `shared` heads and V of `values`. `grouped`: in an
/// axis of its own, which is how exporters write it; K is transposed as matrices of heads then.
Types repeated_heads(int64_t shared, int64_t values, bool grouped, std::vector<Dims> const& dims) {
    constexpr int64_t kAll = 6;
    TestGraph g(45);
    auto t = DimExpr::symbol(g.model.symbols.intern("T"));
    auto repeated = [&](int64_t heads) {
        auto* x = g.input({kBatch, heads, t, kDepth});
        if (!grouped) return g.add(kernel::ExpandInfo{}, {x}, {kBatch, kAll, t, kDepth});
        auto* apart = g.reshape(x, {kBatch, heads, 1, t, kDepth});
        auto* all = g.add(kernel::ExpandInfo{}, {apart}, {kBatch, heads, kAll / heads, t, kDepth});
        return g.reshape(all, {kBatch, kAll, t, kDepth});
    };
    auto *q = g.input({kBatch, kAll, kQueries, kDepth}), *k = repeated(shared), *v = repeated(values);
    auto* keys = grouped ? g.add(kernel::TransposeInfo{{0, 2, 1}}, {g.reshape(k, {kBatch * kAll, t, kDepth})},
                                 {kBatch * kAll, kDepth, t})
                         : g.add(kernel::TransposeInfo{{0, 1, 3, 2}}, {k}, {kBatch, kAll, kDepth, t});
    keys = g.reshape(keys, {kBatch, kAll, kDepth, t});
    Shape scores{kBatch, kAll, kQueries, t};
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    auto* p = g.add(softmax, {g.add(kernel::MatMulInfo{}, {q, keys}, scores)}, scores);
    g.output(g.add(kernel::MatMulInfo{}, {p, v}, {kBatch, kAll, kQueries, kDepth}));
    return compare_passes(g, dims, kTolerance);
}

TEST(FuseAttention, RepeatedHeadsAreShared) {
    auto types_of = [](int64_t shared, int64_t values, bool grouped) {
        auto types = repeated_heads(
            shared, values, grouped,
            {{kBatch, 6, kQueries, kDepth}, {kBatch, shared, kKeys, kDepth}, {kBatch, values, kKeys, kDepth}});
        EXPECT_EQ(count(types, "Attention"), 1);
        return types;
    };
    for (int64_t shared : {1, 2, 3}) EXPECT_EQ(count(types_of(shared, shared, true), "Expand"), 0) << shared;
    EXPECT_EQ(count(types_of(1, 1, false), "Expand"), 0);
    EXPECT_EQ(count(types_of(2, 3, true), "Expand"), 2);
}

TEST(FuseAttention, OneHeadOfKeysForAllQueries) {
    for (int64_t values : {1, 6}) {
        TestGraph g(46);
        auto t = DimExpr::symbol(g.model.symbols.intern("T"));
        auto *q = g.input({kBatch, 6, kQueries, kDepth}), *k = g.input({kBatch, t, kDepth}),
             *v = g.input({kBatch, values, t, kDepth});
        auto* keys = g.add(kernel::TransposeInfo{{0, 2, 1}}, {k}, {kBatch, kDepth, t});
        Shape scores{kBatch, 6, kQueries, t};
        kernel::SoftmaxInfo softmax;
        softmax.axis = 3;
        auto* product = g.add(kernel::MatMulInfo{}, {q, g.reshape(keys, {kBatch, 1, kDepth, t})}, scores);
        g.output(g.add(kernel::MatMulInfo{}, {g.add(softmax, {product}, scores), v}, {kBatch, 6, kQueries, kDepth}));
        Dims const dims[]{{kBatch, 6, kQueries, kDepth}, {kBatch, kKeys, kDepth}, {kBatch, values, kKeys, kDepth}};
        auto types = compare_passes(g, {dims[0], dims[1], dims[2]}, kTolerance);
        EXPECT_EQ(count(types, "Attention"), values == 1) << values;
        EXPECT_EQ(count(types, "Transpose"), values != 1) << values;
    }
}

/// softmax(Q · Kᵀ + a table of each head + a mask of `leading` · H or 1 heads) · V of windows in batches, which are
/// told apart for the mask alone.
Types windows(int64_t batches, Dims leading, int64_t mask_heads, bool symbolic, bool has_table = true) {
    constexpr int64_t kWindows = 4;
    TestGraph g(47);
    DimExpr b(batches);
    if (symbolic) b = DimExpr::symbol(g.model.symbols.intern("B"));
    auto all = b * kWindows;
    auto* x = g.reshape(g.input({b, kWindows, kHeads, kQueries, kDepth}), {all, kHeads, kQueries, kDepth});
    auto* k = g.reshape(g.input({b, kWindows, kHeads, kDepth, kQueries}), {all, kHeads, kDepth, kQueries});
    Shape const matrices{all, kHeads, kQueries, kQueries}, apart{b, kWindows, kHeads, kQueries, kQueries};
    auto* scores = g.add(kernel::MatMulInfo{}, {x, k}, matrices);
    if (has_table) scores = g.elementwise(ExprOp::Add, {scores, g.weights({kHeads, kQueries, kQueries})}, matrices);
    for (auto size : {mask_heads, kQueries, kQueries}) leading.push_back(size);
    auto* mask = g.input(Shape(leading.begin(), leading.end()));
    auto* masked = g.reshape(g.elementwise(ExprOp::Add, {g.reshape(scores, apart), mask}, apart), matrices);
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    g.output(g.add(kernel::MatMulInfo{}, {g.add(softmax, {masked}, matrices), x}, {all, kHeads, kQueries, kDepth}));
    return compare_passes(
        g, {{batches, kWindows, kHeads, kQueries, kDepth}, {batches, kWindows, kHeads, kDepth, kQueries}, leading},
        kTolerance);
}

TEST(FuseAttention, MasksOfWindows) {
    for (int64_t heads : {int64_t{1}, kHeads})
        for (bool symbolic : {false, true}) {
            for (auto const& leading : {Dims{1, 4}, Dims{1, 1}, Dims{3, 4}})
                EXPECT_EQ(count(windows(3, leading, heads, symbolic && leading[0] == 1), "Attention"), 1)
                    << leading[0] << " " << leading[1] << " " << heads << symbolic;
            EXPECT_EQ(count(windows(1, {1, 4}, heads, symbolic), "Attention"), 1) << heads << symbolic;
            EXPECT_EQ(count(windows(1, {1, 1}, heads, symbolic), "Attention"), 1) << heads << symbolic;
        }
    EXPECT_EQ(count(windows(3, {3, 1}, 1, false), "Attention"), 0);
    // Masks that leave the batch out, alone and beside a table.
    for (int64_t batches : {1, 3})
        for (bool table : {false, true}) {
            EXPECT_EQ(count(windows(batches, {4}, 1, false, table), "Attention"), 1) << batches << table;
            EXPECT_EQ(count(windows(batches, {1}, kHeads, false, table), "Attention"), 1) << batches << table;
            EXPECT_EQ(count(windows(batches, {}, kHeads, false, table), "Attention"), 1) << batches << table;
        }
}

/// The same with masks of an image that are expanded to all images and then merged with their windows.
TEST(FuseAttention, MasksOfOneImage) {
    constexpr int64_t kWindows = 4;
    for (bool has_table : {false, true})
        for (bool repeats : {true, false}) {
            TestGraph g(48);
            auto b = DimExpr::symbol(g.model.symbols.intern("B"));
            auto all = b * kWindows;
            auto* x = g.reshape(g.input({b, kWindows, kHeads, kQueries, kDepth}), {all, kHeads, kQueries, kDepth});
            auto* k = g.reshape(g.input({b, kWindows, kHeads, kDepth, kQueries}), {all, kHeads, kDepth, kQueries});
            Shape const matrices{all, kHeads, kQueries, kQueries};
            auto* scores = g.add(kernel::MatMulInfo{}, {x, k}, matrices);
            if (has_table)
                scores = g.elementwise(ExprOp::Add, {scores, g.weights({kHeads, kQueries, kQueries})}, matrices);
            // Windows first, then images: those of one image do not follow each other.
            auto* image = g.weights(repeats ? Dims{1, kWindows, 1, kQueries, kQueries}
                                            : Dims{kWindows, 1, 1, kQueries, kQueries});
            Shape const images =
                repeats ? Shape{b, kWindows, 1, kQueries, kQueries} : Shape{kWindows, b, 1, kQueries, kQueries};
            auto* mask = g.reshape(g.add(kernel::ExpandInfo{}, {image}, images), {all, 1, kQueries, kQueries});
            kernel::SoftmaxInfo softmax;
            softmax.axis = 3;
            auto* masked = g.elementwise(ExprOp::Add, {scores, mask}, matrices);
            g.output(
                g.add(kernel::MatMulInfo{}, {g.add(softmax, {masked}, matrices), x}, {all, kHeads, kQueries, kDepth}));
            auto types = compare_passes(
                g, {{3, kWindows, kHeads, kQueries, kDepth}, {3, kWindows, kHeads, kDepth, kQueries}}, kTolerance);
            EXPECT_EQ(count(types, "Attention"), 1);
            EXPECT_EQ(count(types, "Expand"), repeats ? 0 : 1);
        }
}

TEST(FuseAttention, ReshapesThatMixAxesStay) {
    TestGraph g(44);
    auto *q = g.input({6, 4, kDepth}), *k = g.input({6, kDepth, 4}), *v = g.input({6, 4, kDepth}),
         *mask = g.input({2, 4, 3, 4});
    auto* scores = g.reshape(g.add(kernel::MatMulInfo{}, {q, k}, {6, 4, 4}), {2, 4, 3, 4});
    auto* masked = g.reshape(g.elementwise(ExprOp::Add, {scores, mask}, {2, 4, 3, 4}), {6, 4, 4});
    kernel::SoftmaxInfo softmax;
    softmax.axis = 2;
    g.output(g.add(kernel::MatMulInfo{}, {g.add(softmax, {masked}, {6, 4, 4}), v}, {6, 4, kDepth}));
    auto types = compare_passes(g, {{6, 4, kDepth}, {6, kDepth, 4}, {6, 4, kDepth}, {2, 4, 3, 4}}, kTolerance);
    EXPECT_EQ(count(types, "Attention"), 0);
}

}  // namespace
}  // namespace refactor::computation
