#include "passes/attention_scores.h"

#include "passes/test_graph.h"

#include <limits>

namespace refactor::computation {

namespace {

using namespace test;
using kernel::ExprOp;

// Sums of at most 11 products, softmax, and again sums.
constexpr double kTolerance = 2e-6;
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kQueries = 5, kKeys = 11;

/// Hides keys in the future of a query, as a constant [1, 1, S, T]; `hidden`: true where it does, else where not.
EdgePtr causal(TestGraph& g, bool hidden) {
    std::vector<uint8_t> values;
    for (int64_t s = 0; s < kQueries; ++s)
        for (int64_t t = 0; t < kKeys; ++t) values.push_back((t > s + kKeys - kQueries) == hidden);
    auto blob = mem_manager::Blob::copy_of(values.data(), values.size());
    return g.model.graph.add_source({"causal", DataType::Bool, {1, 1, kQueries, kKeys}, {}, blob, false});
}

/// Node types of softmax(`scores` of Q · Kᵀ) · V, which must not depend on passes. `scores` gets the product and a bias
/// [3, 1, T].
template <class F>
Types types_after(F&& scores) {
    TestGraph g(41);
    Shape shape{2, 3, kQueries, kKeys};
    auto *q = g.input({2, 3, kQueries, 8}), *k = g.input({2, 3, 8, kKeys}), *v = g.input({2, 3, kKeys, 8}),
         *bias = g.input({3, 1, kKeys});
    auto* product = g.add(kernel::MatMulInfo{}, {q, k}, shape);
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    auto* p = g.add(softmax, {scores(g, product, bias, shape)}, shape);
    g.output(g.add(kernel::MatMulInfo{}, {p, v}, {2, 3, kQueries, 8}));
    return compare_passes(g, {{2, 3, kQueries, 8}, {2, 3, 8, kKeys}, {2, 3, kKeys, 8}, {3, 1, kKeys}}, kTolerance);
}

bool is_fused(Types const& types) { return count(types, "Attention") == 1; }

TEST(AttentionScores, HiddenThenAdded) {
    for (float hidden : {kLowest, -std::numeric_limits<float>::infinity()}) {
        auto types = types_after([&](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
            auto* scaled = g.elementwise(ExprOp::Mul, {x, g.scalar(0.4f)}, shape);
            auto* shown = g.elementwise(ExprOp::Where, {causal(g, false), scaled, g.scalar(hidden)}, shape);
            return g.elementwise(ExprOp::Add, {shown, bias}, shape);
        });
        EXPECT_TRUE(is_fused(types)) << hidden;
    }
}

TEST(AttentionScores, AddedThenHidden) {
    auto types = types_after([&](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
        auto* scaled = g.elementwise(ExprOp::Div, {x, g.scalar(2.5f)}, shape);
        auto* added = g.elementwise(ExprOp::Add, {bias, scaled}, shape);
        return g.elementwise(ExprOp::Where, {causal(g, true), g.scalar(kLowest), added}, shape);
    });
    EXPECT_TRUE(is_fused(types));
}

TEST(AttentionScores, HiddenThenScaled) {
    for (float divisor : {8.F, 1e12F}) {
        auto types = types_after([&](TestGraph& g, EdgePtr x, EdgePtr, Shape const& shape) {
            auto* shown = g.elementwise(ExprOp::Where, {causal(g, false), x, g.scalar(kLowest / 16)}, shape);
            return g.elementwise(ExprOp::Div, {shown, g.scalar(divisor)}, shape);
        });
        EXPECT_EQ(is_fused(types), divisor == 8.F);  // what hides has to stay beyond any score
    }
}

TEST(AttentionScores, ScaledBehindTheMask) {
    auto types = types_after([&](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
        auto* less = g.elementwise(ExprOp::Sub, {x, bias}, shape);
        auto* scaled = g.elementwise(ExprOp::Mul, {g.scalar(0.3f), less}, shape);
        return g.elementwise(ExprOp::Add, {scaled, g.elementwise(ExprOp::Abs, {bias}, {3, 1, kKeys})}, shape);
    });
    EXPECT_TRUE(is_fused(types));
}

TEST(AttentionScores, Capped) {
    auto capped = [](TestGraph& g, EdgePtr x, Shape const& shape, float factor) {
        auto* inner = g.elementwise(ExprOp::Div, {x, g.scalar(3.f)}, shape);
        return g.elementwise(ExprOp::Mul, {g.elementwise(ExprOp::Tanh, {inner}, shape), g.scalar(factor)}, shape);
    };
    for (float factor : {2.f, -2.f}) {
        auto types = types_after([&](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
            return g.elementwise(ExprOp::Add, {capped(g, x, shape, factor), bias}, shape);
        });
        EXPECT_EQ(is_fused(types), factor > 0);
    }
    auto types = types_after([&](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
        return capped(g, g.elementwise(ExprOp::Add, {x, bias}, shape), shape, 2);
    });
    EXPECT_FALSE(is_fused(types)) << "the mask is capped, too";
}

/// softmax(Q · Kᵀ · 0.4 + mask [B, 1, 1, M]) · V with symbolic B, S, T and M; V has T rows, or the mask's number of
/// them.
Model masked_by_its_own_symbol(bool values_follow_mask) {
    TestGraph g(43);
    auto symbol = [&](char const* name) { return DimExpr::symbol(g.model.symbols.intern(name)); };
    auto b = symbol("B"), s = symbol("S"), t = symbol("T"), m = symbol("M");
    auto all = *broadcast(t, m);
    auto *q = g.input({b, 3, s, 8}), *k = g.input({b, 3, 8, t}), *v = g.input({b, 3, values_follow_mask ? all : t, 8}),
         *mask = g.input({b, 1, 1, m});
    auto* scaled =
        g.elementwise(ExprOp::Mul, {g.add(kernel::MatMulInfo{}, {q, k}, {b, 3, s, t}), g.scalar(0.4f)}, {b, 3, s, t});
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    auto* p = g.add(softmax, {g.elementwise(ExprOp::Add, {scaled, mask}, {b, 3, s, all})}, {b, 3, s, all});
    g.output(g.add(kernel::MatMulInfo{}, {p, v}, {b, 3, s, 8}));
    return g.copy();
}

TEST(AttentionScores, MaskOfItsOwnSymbol) {
    TestGraph random(44);
    auto inputs = [&](int64_t batch, int64_t queries, int64_t keys, int64_t masked) {
        std::vector<std::pair<Dims, std::vector<float>>> values;
        for (Dims const& dims :
             {Dims{batch, 3, queries, 8}, Dims{batch, 3, 8, keys}, Dims{batch, 3, keys, 8}, Dims{batch, 1, 1, masked}})
            values.emplace_back(dims, random.random_floats(static_cast<size_t>(element_count(dims))));
        return values;
    };
    CompileOptions with, without;
    without.passes = {"-all"};
    auto fused = compile(masked_by_its_own_symbol(false), with).program,
         plain = compile(masked_by_its_own_symbol(false), without).program;
    ASSERT_TRUE(is_fused(types_of(*fused)));
    for (auto const& [queries, keys, masked] : {std::array<int64_t, 3>{5, 7, 7}, {1, 9, 9}, {4, 6, 1}, {3, 1, 1}}) {
        auto values = inputs(2, queries, keys, masked);
        auto actual = run(fused, values)[0], expected = run(plain, values)[0];
        ASSERT_EQ(actual.size(), expected.size());
        for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5);
    }
    for (auto const& [keys, masked] : {std::pair<int64_t, int64_t>{7, 6}, {1, 4}}) try {
            run(fused, inputs(2, 5, keys, masked));
            FAIL() << keys << " keys, " << masked << " in the mask";
        } catch (InvalidInput const& error) {
            EXPECT_NE(std::string(error.what())
                          .find("the number of keys in the mask is " + std::to_string(masked) + ", expected " +
                                std::to_string(keys)),
                      std::string::npos)
                << error.what();
        }
    EXPECT_FALSE(is_fused(types_of(*compile(masked_by_its_own_symbol(true), with).program)));
}

TEST(AttentionScores, FactorsOfRows) {
    auto times = [](Dims const& dims, ExprOp op, bool behind_mask = false) {
        return types_after([&](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
            auto* factor = g.weights(dims);
            if (behind_mask) return g.elementwise(op, {g.elementwise(ExprOp::Add, {x, bias}, shape), factor}, shape);
            auto* scaled = g.elementwise(ExprOp::Mul, {g.elementwise(op, {x, factor}, shape), g.scalar(0.2f)}, shape);
            return g.elementwise(ExprOp::Add, {scaled, bias}, shape);
        });
    };
    EXPECT_TRUE(is_fused(times({3, 1, 1}, ExprOp::Mul)));
    EXPECT_TRUE(is_fused(times({kQueries, 1}, ExprOp::Mul)));
    EXPECT_TRUE(is_fused(times({3, kQueries, 1}, ExprOp::Div)));
    EXPECT_FALSE(is_fused(times({3, 1, kKeys}, ExprOp::Mul))) << "keys have factors of their own";
    EXPECT_FALSE(is_fused(times({2, 1, 1, 1}, ExprOp::Mul))) << "batches have factors of their own";
    EXPECT_FALSE(is_fused(times({3, 1, 1}, ExprOp::Mul, true))) << "the mask is scaled, too";
}

TEST(AttentionScores, FactorsJoinWhatMadeTheQueries) {
    TestGraph g(42);
    Shape shape{2, 3, kQueries, kKeys};
    auto *q = g.input({2, 3, kQueries, 8}), *k = g.input({2, 3, 8, kKeys}), *v = g.input({2, 3, kKeys, 8});
    auto* product = g.add(kernel::MatMulInfo{}, {g.elementwise(ExprOp::Tanh, {q}, {2, 3, kQueries, 8}), k}, shape);
    auto* scaled = g.elementwise(
        ExprOp::Div, {g.elementwise(ExprOp::Mul, {product, g.weights({3, 1, 1})}, shape), g.weights({kQueries, 1})},
        shape);
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    g.output(g.add(kernel::MatMulInfo{}, {g.add(softmax, {scaled}, shape), v}, {2, 3, kQueries, 8}));
    auto types = compare_passes(g, {{2, 3, kQueries, 8}, {2, 3, 8, kKeys}, {2, 3, kKeys, 8}}, kTolerance);
    EXPECT_EQ(count(types, "Attention"), 1);
    EXPECT_LE(count(types, "Elementwise"), 2) << "tanh times the factors, and the factors";
}

TEST(AttentionScores, LeavesOtherScoresAlone) {
    auto seen = [](TestGraph& g, EdgePtr x, EdgePtr, Shape const& shape) {
        return g.elementwise(ExprOp::Where, {causal(g, false), x, g.scalar(-2)}, shape);
    };
    auto twice = [](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
        return g.elementwise(ExprOp::Add, {x, g.elementwise(ExprOp::Mul, {x, bias}, shape)}, shape);
    };
    auto tested = [](TestGraph& g, EdgePtr x, EdgePtr bias, Shape const& shape) {
        auto greater = make_expression(ExprOp::Greater, DataType::Bool, {x, bias});
        auto* test =
            g.add(kernel::ElementwiseInfo{greater.code, greater.outputs}, greater.inputs, shape, {}, DataType::Bool);
        return g.elementwise(ExprOp::Where, {test, x, g.scalar(kLowest)}, shape);
    };
    EXPECT_FALSE(is_fused(types_after(seen)));
    EXPECT_FALSE(is_fused(types_after(twice)));
    EXPECT_FALSE(is_fused(types_after(tested)));
}

}  // namespace
}  // namespace refactor::computation
