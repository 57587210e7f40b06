#include "common/dim_expr.h"
#include "random_test.h"

#include <memory>
#include <random>

#include <gtest/gtest.h>

namespace refactor {
namespace {

constexpr int kSymbols = 4;

/// A random expression as it was written: the oracle evaluates it literally, without any simplification.
struct Tree {
    enum Op { Constant, Symbol, Add, Sub, Mul, FloorDiv, CeilDiv, Mod, Min, Max, Broadcast } op;
    int64_t value = 0;
    std::unique_ptr<Tree> a, b;

    std::optional<int64_t> evaluate(std::vector<int64_t> const& bindings) const {
        if (op == Constant) return value;
        if (op == Symbol) return bindings[static_cast<size_t>(value)];
        auto x = a->evaluate(bindings), y = b->evaluate(bindings);
        if (!x || !y) return std::nullopt;
        int64_t p = *x, q = *y;
        // Far below int64, so that no intermediate result of any order of operations overflows.
        auto small = [](int64_t r) -> std::optional<int64_t> {
            if (r > 1'000'000 || r < -1'000'000) return std::nullopt;
            return r;
        };
        auto floor = [](int64_t m, int64_t n) { return m / n - (m % n != 0 && (m < 0) != (n < 0)); };
        switch (op) {
            case Add:
                return small(p + q);
            case Sub:
                return small(p - q);
            case Mul:
                return small(p * q);
            case FloorDiv:
                return q ? small(floor(p, q)) : std::nullopt;
            case CeilDiv:
                return q ? small(-floor(-p, q)) : std::nullopt;
            case Mod:
                return q ? small(p - floor(p, q) * q) : std::nullopt;
            case Min:
                return std::min(p, q);
            case Max:
                return std::max(p, q);
            default:
                if (p == q || q == 1) return p;
                return p == 1 ? std::optional(q) : std::nullopt;
        }
    }
};

struct Sample {
    std::unique_ptr<Tree> tree;
    std::optional<DimExpr> expr;  // nothing: an impossible broadcast
};

Sample random_sample(std::mt19937_64& random, int depth) {
    auto pick = [&](int n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
    auto tree = std::make_unique<Tree>();
    if (depth == 0 || pick(6) == 0) {
        bool symbol = pick(2) == 0;
        tree->op = symbol ? Tree::Symbol : Tree::Constant;
        tree->value = symbol ? pick(kSymbols) : pick(13) - 4;
        DimExpr expr = symbol ? DimExpr::symbol(static_cast<SymbolId>(tree->value)) : DimExpr(tree->value);
        return {std::move(tree), expr};
    }
    tree->op = static_cast<Tree::Op>(Tree::Add + pick(9));
    auto a = random_sample(random, depth - 1), b = random_sample(random, depth - 1);
    tree->a = std::move(a.tree), tree->b = std::move(b.tree);
    if (!a.expr || !b.expr) return {std::move(tree), std::nullopt};
    std::optional<DimExpr> expr;
    switch (tree->op) {
        case Tree::Add:
            expr = *a.expr + *b.expr;
            break;
        case Tree::Sub:
            expr = *a.expr - *b.expr;
            break;
        case Tree::Mul:
            expr = *a.expr * *b.expr;
            break;
        case Tree::FloorDiv:
            expr = floor_div(*a.expr, *b.expr);
            break;
        case Tree::CeilDiv:
            expr = ceil_div(*a.expr, *b.expr);
            break;
        case Tree::Mod:
            expr = mod(*a.expr, *b.expr);
            break;
        case Tree::Min:
            expr = min(*a.expr, *b.expr);
            break;
        case Tree::Max:
            expr = max(*a.expr, *b.expr);
            break;
        default:
            expr = broadcast(*a.expr, *b.expr);
    }
    return {std::move(tree), expr};
}

std::vector<int64_t> random_bindings(std::mt19937_64& random) {
    std::vector<int64_t> bindings(kSymbols);
    for (auto& value : bindings) value = static_cast<int64_t>(random() % 12);
    return bindings;
}

TEST(DimProperty, EvaluationAgreesWithTheLiteralTree) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937_64 random(seed);
    SymbolTable table;
    for (auto const* name : {"N", "S", "H", "W"}) table.intern(name);
    int compared = 0, constants = 0;
    for (int round = 0; round < 20000; ++round) {
        auto [tree, expr] = random_sample(random, 1 + round % 5);
        DimProgram program;
        std::optional<uint32_t> slot;
        if (expr) slot = program.add(*expr);
        for (int i = 0; i < 4; ++i) {
            auto bindings = random_bindings(random);
            auto expected = tree->evaluate(bindings);
            if (!expr) {
                ASSERT_FALSE(expected);
                continue;
            }
            SCOPED_TRACE(expr->to_string(table));
            auto value = expr->evaluate(bindings);
            std::vector<int64_t> values(program.slots());
            auto failed = program.evaluate(bindings, values);
            ASSERT_EQ(value.value_or(kUnbound), values[*slot]);
            ASSERT_EQ(value.has_value(), !failed);
            auto partial = bindings;
            for (auto& b : partial)
                if (random() % 2) b = kUnbound;
            auto replaced = expr->substitute(partial);
            auto everything = expr->substitute(bindings);
            if (!expected) continue;
            ASSERT_TRUE(value);
            ASSERT_EQ(*value, *expected);
            ASSERT_EQ(replaced.evaluate(bindings), value) << replaced.to_string(table);
            ASSERT_EQ(everything.constant(), value) << everything.to_string(table);
            ASSERT_LE(expr->lower_bound().value_or(INT64_MIN), *value);
            ++compared;
            constants += expr->is_constant();
        }
    }
    // The sample must not degenerate into failures and constants.
    EXPECT_GT(compared, 20000);
    EXPECT_LT(constants, compared / 2);
}

/// Ring identities reach one normal form whatever the order of operations.
TEST(DimProperty, RingIdentities) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937_64 random(seed);
    auto polynomial = [&] {
        DimExpr x = static_cast<int64_t>(random() % 9) - 4;
        for (int i = 0; i < 3; ++i) {
            DimExpr term = static_cast<int64_t>(random() % 9) - 4;
            for (uint64_t k = random() % 3; k; --k)
                term = term * DimExpr::symbol(static_cast<SymbolId>(random() % kSymbols));
            x = x + term;
        }
        return x;
    };
    for (int round = 0; round < 5000; ++round) {
        auto a = polynomial(), b = polynomial(), c = polynomial();
        int64_t k = 1 + static_cast<int64_t>(random() % 9);
        ASSERT_EQ((a + b) * c, c * b + c * a);
        ASSERT_EQ((a * b) * c, a * (c * b));
        ASSERT_EQ((a - b) + (b - a), DimExpr(0));
        ASSERT_EQ((a * b).hash(), (b * a).hash());
        ASSERT_EQ(floor_div(a * k, k), a);
        ASSERT_EQ(floor_div(a * k + (k - 1), k), a);
        ASSERT_EQ(mod(a * k, k), DimExpr(0));
        ASSERT_EQ(floor_div(a + b * k, k), b + floor_div(a, k));
        ASSERT_EQ(max(a, a + k), a + k);
        ASSERT_EQ(min(a, a + k), a);
        if (b != DimExpr(0)) {
            ASSERT_EQ(floor_div(a * b, b), a);
            ASSERT_EQ(ceil_div(b * a, b), a);
            ASSERT_EQ(mod(a * b, b), DimExpr(0));
        }
    }
}

}  // namespace
}  // namespace refactor
