#include "common/dim_expr.h"

#include <gtest/gtest.h>

namespace refactor {
namespace {

class Dim : public testing::Test {
protected:
    SymbolTable table;
    DimExpr N = DimExpr::symbol(table.intern("N")), S = DimExpr::symbol(table.intern("S")),
            H = DimExpr::symbol(table.intern("H"));

    std::string text(DimExpr const& x) { return x.to_string(table); }
};

TEST_F(Dim, Symbols) {
    EXPECT_EQ(table.intern("N"), 0u);
    EXPECT_EQ(table.size(), 3u);
    EXPECT_EQ(table.find(table.name(1)), SymbolId{1});
    EXPECT_FALSE(table.find("missing"));
    EXPECT_EQ((N * S + H * 2 - floor_div(S, 3)).symbols(), (std::vector<SymbolId>{0, 1, 2}));
    EXPECT_EQ(N.as_symbol(), 0u);
    EXPECT_FALSE((N + 1).as_symbol() || (N * 2).as_symbol() || DimExpr(3).as_symbol());
}

TEST_F(Dim, NormalForm) {
    EXPECT_EQ(N + S - N, S);
    EXPECT_EQ((N + S) * (N - S), N * N - S * S);
    EXPECT_EQ(N * 0, DimExpr(0));
    EXPECT_EQ(N - N, 0);
    EXPECT_EQ(N + 0, N);
    EXPECT_EQ(N * 1, N);
    EXPECT_EQ((N * S).hash(), (S * N).hash());
    EXPECT_NE(N * S, N + S);
    EXPECT_NE(N, DimExpr(0));
    EXPECT_EQ(floor_div(N + S, 3), floor_div(S + N, 3));
}

TEST_F(Dim, DivisionByConstants) {
    EXPECT_EQ(floor_div(N * 4, 2), N * 2);
    EXPECT_EQ(floor_div(N * 4 + 3, 4), N);
    EXPECT_EQ(floor_div(N * 4 - 1, 4), N - 1);
    EXPECT_EQ(ceil_div(N * 4 + 1, 4), N + 1);
    EXPECT_EQ(mod(N * 4 + 7, 4), 3);
    EXPECT_EQ(mod(N * 4 - 1, -4), -1);
    EXPECT_EQ(floor_div(N, 1), N);
    EXPECT_EQ(floor_div(N, -1), N * -1);
    EXPECT_EQ(floor_div(N * 6 + 4, 4), N + 1 + floor_div(N, 2));
    EXPECT_EQ(floor_div(floor_div(N - 1, 2), 2), floor_div(N - 1, 4));
    EXPECT_EQ(mod(N * 6 + 3, 4), mod(N, 2) * 2 + 1 - (mod(N, 2) * 2 + 1 - mod(N * 2 + 3, 4)));
    EXPECT_EQ(ceil_div(H, 2), floor_div(H + 2 - 3, 2) + 1);
    EXPECT_EQ(floor_div(-7, 2), -4);
    EXPECT_EQ(ceil_div(-7, 2), -3);
    EXPECT_EQ(mod(-7, 3), 2);
    EXPECT_EQ(mod(7, -3), -2);
}

TEST_F(Dim, DivisionBySymbols) {
    EXPECT_EQ(floor_div(N * S, N), S);
    EXPECT_EQ(floor_div(N * S * 4, N * 2), S * 2);
    EXPECT_EQ(floor_div(N, N), 1);
    EXPECT_EQ(mod(N * S, S), 0);
    // Reshape of [N, H + S, 768] to [N, H + S, 12, -1].
    EXPECT_EQ(floor_div(N * (H + S) * 768, N * (H + S) * 12), 64);
    EXPECT_EQ(floor_div((N + 1) * S * H, N * S + S), H);
    EXPECT_EQ(floor_div(N * S + H, N), S + floor_div(H, N));
    EXPECT_EQ(ceil_div(N * S, N * H), ceil_div(S, H));
    EXPECT_FALSE(floor_div(N, S).is_constant());
    EXPECT_FALSE(floor_div(N, S).evaluate(std::vector<int64_t>{3, 0, 0}));
}

TEST_F(Dim, ZeroDivisorsStayUnevaluated) {
    auto x = floor_div(7, 0);
    EXPECT_FALSE(x.is_constant());
    EXPECT_FALSE(x.evaluate({}));
    EXPECT_FALSE(mod(N, 0).evaluate(std::vector<int64_t>{1}));
    EXPECT_EQ(text(ceil_div(N, 0)), "ceil_div(N, 0)");
    EXPECT_FALSE(floor_div(12, N).substitute(std::vector<int64_t>{0}).evaluate({}));
}

TEST_F(Dim, Extrema) {
    EXPECT_EQ(max(N, N), N);
    EXPECT_EQ(max(N + 3, N), N + 3);
    EXPECT_EQ(min(N + 3, N), N);
    EXPECT_EQ(min(3, 5), 3);
    EXPECT_EQ(max(N, 0), N);
    EXPECT_EQ(min(N, INT64_MAX), N);
    EXPECT_EQ(max(N, INT64_MIN), N);
    EXPECT_EQ(min(min(N, S), H), min(S, min(H, N)));
    EXPECT_EQ(min(min(N, S), N), min(N, S));
    EXPECT_EQ(min(min(N, 5), 3), min(N, 3));
    EXPECT_EQ(max(mod(N, 4), 4), 4);
    EXPECT_EQ(text(min(N, 5)), "min(N, 5)");
}

TEST_F(Dim, Broadcast) {
    EXPECT_EQ(broadcast(N, 1), N);
    EXPECT_EQ(broadcast(1, N), N);
    EXPECT_EQ(broadcast(N, N), N);
    EXPECT_EQ(broadcast(1, 1), DimExpr(1));
    EXPECT_EQ(broadcast(0, 1), DimExpr(0));
    EXPECT_FALSE(broadcast(2, 3));
    auto x = *broadcast(N, 4);
    EXPECT_EQ(broadcast(x, 4), x);
    EXPECT_FALSE(broadcast(x, 5));
    EXPECT_EQ(broadcast(x, N), x);
    EXPECT_EQ(x.evaluate(std::vector<int64_t>{1}), 4);
    EXPECT_EQ(x.evaluate(std::vector<int64_t>{4}), 4);
    EXPECT_FALSE(x.evaluate(std::vector<int64_t>{3}));
    EXPECT_EQ(x.substitute(std::vector<int64_t>{1}), 4);
    EXPECT_FALSE(x.substitute(std::vector<int64_t>{3}).evaluate({}));
    EXPECT_EQ(x.lower_bound(), 4);
    EXPECT_EQ(broadcast(N - 1, max(N - 1, 0)), N - 1);
    EXPECT_EQ(broadcast(*broadcast(max(N - 1, 0), S), N - 1), broadcast(S, N - 1));
    EXPECT_FALSE(broadcast(N - 1, max(N - 2, 0)) == N - 1);
}

TEST_F(Dim, PaddedToMultiples) {
    // As models write it: what lacks to the next multiple of 8.
    for (auto const& lacks : {mod(8 - mod(N, 8), 8), mod(N * -1, 8), mod(N * 7, 8), mod(16 - mod(N, 16), 8)}) {
        EXPECT_EQ(N + lacks, ceil_div(N, 8) * 8) << text(lacks);
        EXPECT_EQ(mod(N + lacks, 8), 0);
        EXPECT_EQ(floor_div(N + lacks, 8), ceil_div(N, 8));
        EXPECT_EQ(N + lacks - N, lacks);
        EXPECT_EQ(lacks.lower_bound(), 0);
        EXPECT_EQ(max(lacks, 7), 7);
        for (int64_t n = 0; n < 20; ++n) EXPECT_EQ(lacks.evaluate(std::vector<int64_t>{n}), (8 - n % 8) % 8);
    }
    EXPECT_EQ(mod(N * 3 + S + 5, 4), mod(N * 3 + S * 5 + 1, 4));
    EXPECT_EQ(mod(mod(N, 12) + S, 4), mod(N + S, 4));
    EXPECT_EQ((N * 2 - floor_div(N, 4) * 8).lower_bound(), 0);
    EXPECT_EQ((floor_div(N + 3, 4) * 4 - N).lower_bound(), 0);
}

TEST_F(Dim, PartsThatAreRolled) {
    // x[k:] and x[:k], joined.
    auto first = min(N, 4), rest = max(N - first, 0);
    EXPECT_EQ(rest, N - first);
    EXPECT_EQ(rest + first, N);
    auto padded = ceil_div(N, 8) * 8;
    EXPECT_EQ(max(padded - min(padded, 4), 0) + min(padded, 4), padded);
    EXPECT_EQ((max(N, S) - N).lower_bound(), 0);
    EXPECT_EQ((max(N, S) * 2 - N - S).lower_bound(), std::nullopt);  // by one operand at a time
    EXPECT_FALSE((min(N, S) - N).lower_bound());
    EXPECT_EQ(max(min(N, S) - N, 0), 0);
}

TEST_F(Dim, Clamped) {
    EXPECT_EQ(max(N - 1, 0).as_clamped(), N - 1);
    EXPECT_EQ(max(0, N - S).as_clamped(), N - S);
    EXPECT_EQ(max(max(N - 1, S - H), 0).as_clamped(), max(N - 1, S - H));
    for (auto const& x : {N, DimExpr(0), max(N - 1, 1), max(N - 1, 0) + 1, max(N - 1, S - H)})
        EXPECT_FALSE(x.as_clamped()) << text(x);
}

TEST_F(Dim, OverflowHasNoValue) {
    std::vector<int64_t> bindings{2, 3, 4};
    auto big = DimExpr(INT64_MAX);
    for (auto const& x : {big + 1, DimExpr(INT64_MIN) - 1, big * 2, big * N * 2, N * big + N * big,
                          floor_div(INT64_MIN, -1), (big + 1) * 0, max(big + 1, 3), DimExpr(INT64_MIN) * -1})
        EXPECT_FALSE(x.evaluate(bindings)) << text(x);
    EXPECT_EQ(text(big + 1), "overflow");
    auto product = N * big;
    EXPECT_FALSE(product.evaluate(bindings));
    EXPECT_EQ(product.evaluate(std::vector<int64_t>{1}), INT64_MAX);
    EXPECT_EQ(DimExpr(INT64_MIN).evaluate({}), INT64_MIN);
    EXPECT_FALSE((N + 1).evaluate({}));
    EXPECT_FALSE((N + 1).evaluate(std::vector<int64_t>{kUnbound}));
    DimProgram program;
    program.add(floor_div(N * INT64_MIN, S * INT64_MIN));
}

TEST_F(Dim, LargeProductsStayUnexpanded) {
    DimExpr sum = 1, other = 2;
    std::vector<int64_t> bindings;
    for (SymbolId i = 0; i < 20; ++i) {
        sum = sum + DimExpr::symbol(i);
        other = other + DimExpr::symbol(i) * 3;
        bindings.push_back(i);
    }
    EXPECT_EQ(sum * other, other * sum);
    EXPECT_EQ((sum * other).evaluate(bindings), 191 * 572);
    EXPECT_EQ((sum * other).substitute(bindings), 191 * 572);
}

TEST_F(Dim, SharedSubexpressionsAreNotRepeated) {
    // Each level mentions the one below twice: as a tree it would have 2^60 leaves.
    DimExpr x = N, y = N;
    for (int i = 0; i < 60; ++i) {
        x = floor_div(x * x + S, 3);
        y = floor_div(S + y * y, 3);
    }
    EXPECT_EQ(x, y);
    EXPECT_EQ(x.symbols().size(), 2u);
    EXPECT_TRUE(x.substitute(std::vector<int64_t>{1, 2}).is_constant());
    DimProgram program;
    program.add(x);
    EXPECT_LT(program.slots(), 300u);
}

TEST_F(Dim, Bounds) {
    EXPECT_EQ(N.lower_bound(), 0);
    EXPECT_EQ((N * S + 3).lower_bound(), 3);
    EXPECT_FALSE((N - 1 - S).lower_bound());
    EXPECT_EQ((N - mod(S, 4)).lower_bound(), -3);
    EXPECT_EQ(floor_div(N + 7, 2).lower_bound(), 3);
    EXPECT_EQ(max(N - S, 1).lower_bound(), 1);
    EXPECT_EQ(DimExpr(-4).lower_bound(), -4);
}

TEST_F(Dim, Text) {
    EXPECT_EQ(text(N * S * 2 - H + 4), "2*N*S - H + 4");
    EXPECT_EQ(text(H * -1), "-H");
    EXPECT_EQ(text(floor_div(H + 2 - 3, 2) + 1), "ceil_div(H, 2)");
    EXPECT_EQ(text(floor_div(H, 2)), "floor_div(H, 2)");
    EXPECT_EQ(text(mod(H, 3) * 5), "5*mod(H, 3)");
    EXPECT_EQ(to_string(Shape{N, 3, H + 1}, table), "[N, 3, H + 1]");
    EXPECT_EQ(to_string(Shape{}, table), "[]");
    EXPECT_EQ(element_count(Shape{N, 3, H}), N * H * 3);
    EXPECT_EQ(element_count(Shape{}), 1);
}

TEST_F(Dim, ProgramSharesAndReports) {
    DimProgram program;
    auto a = program.add(N * S), b = program.add(S * N), c = program.add(floor_div(12, H)), d = program.add(N + 7),
         e = program.add(INT64_MIN);
    EXPECT_EQ(a, b);
    std::vector<int64_t> values(program.slots());
    EXPECT_FALSE(program.evaluate(std::vector<int64_t>{3, 5, 4}, values));
    EXPECT_EQ(values[a], 15);
    EXPECT_EQ(values[c], 3);
    EXPECT_EQ(values[d], 10);
    EXPECT_EQ(values[e], INT64_MIN);
    EXPECT_EQ(program.evaluate(std::vector<int64_t>{3, 5, 0}, values), c);
    EXPECT_EQ(values[c], kUnbound);
    EXPECT_EQ(values[d], 10);
    EXPECT_TRUE(program.evaluate(std::vector<int64_t>{3}, values));
    EXPECT_EQ(values[a], kUnbound);
    EXPECT_EQ(values[d], 10);
    auto moved = std::move(program);
    EXPECT_EQ(moved.add(N * S), a);
    auto overflow = moved.add(DimExpr(INT64_MAX) + 1);
    values.resize(moved.slots());
    EXPECT_EQ(moved.evaluate(std::vector<int64_t>{3, 5, 4}, values), overflow);
}

TEST(DimExpr, SharedPartsCostNothing) {
    SymbolTable symbols;
    auto N = DimExpr::symbol(symbols.intern("N")), S = DimExpr::symbol(symbols.intern("S"));
    auto x = N;
    // Each step mentions the one before twice: 2^60 operations if they were counted one by one.
    for (int i = 0; i < 60; ++i) x = floor_div(x * S + x, 7);
    EXPECT_EQ(x.evaluate(std::vector<int64_t>{20, 6}), 20);
    EXPECT_EQ(x.substitute(std::vector<int64_t>{20, 6}), DimExpr(20));
    auto text = x.to_string(symbols);
    EXPECT_EQ(text.substr(0, 20), "floor_div(S*floor_di");
    EXPECT_LT(text.size(), 1100u);
}

TEST(DimExpr, DepthIsBounded) {
    SymbolTable symbols;
    auto N = DimExpr::symbol(symbols.intern("N")), S = DimExpr::symbol(symbols.intern("S"));
    auto x = N;
    for (int i = 0; i < 100; ++i) x = mod(x * S, N + S + i);
    EXPECT_TRUE(x.evaluate(std::vector<int64_t>{20, 6}));
    for (int i = 0; i < 100000; ++i) x = mod(x * S, N + S + i);
    EXPECT_FALSE(x.evaluate(std::vector<int64_t>{20, 6}));
    EXPECT_EQ(x.to_string(symbols), "overflow");
}

}  // namespace
}  // namespace refactor
