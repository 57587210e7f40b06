#include "term.h"

#include "scalar.h"

#include <gtest/gtest.h>

namespace refactor::pnnx {
namespace {

std::string expression(std::string_view text) {
    auto parsed = parse_expression(text);
    return parsed ? to_string(*parsed) : "error: " + parsed.error();
}

TEST(Term, LiteralsOfPythonAreRead) {
    EXPECT_EQ(parse_literal("None").kind, Term::Kind::None);
    EXPECT_EQ(parse_literal("True").kind, Term::Kind::Bool);
    EXPECT_EQ(parse_literal("-12").integer, -12);
    EXPECT_DOUBLE_EQ(parse_literal("1.000000e-05").number, 1e-5);
    EXPECT_EQ(parse_literal("-inf").number, -std::numeric_limits<double>::infinity());
    EXPECT_EQ(to_string(parse_literal("(1,2)")), "[1, 2]");
    EXPECT_EQ(to_string(parse_literal("(1,)")), "[1]");
    EXPECT_EQ(to_string(parse_literal("()")), "[]");
    EXPECT_EQ(to_string(parse_literal("[None,[0,2]]")), "[None, [0, 2]]");
    for (auto text : {"torch.float", "bij,bjk->bik", "zeros", "1+2j", "(1", "size(@0,1)"})
        EXPECT_EQ(parse_literal(text).text, text) << text;
}

TEST(Term, NumbersOutOfRangeBecomeWhatStrtodSays) {
    EXPECT_EQ(parse_literal("1e400").number, std::numeric_limits<double>::infinity());
    EXPECT_EQ(parse_literal("-1e400").number, -std::numeric_limits<double>::infinity());
    EXPECT_EQ(parse_literal("1e-400").number, 0);
    EXPECT_EQ(parse_literal("99999999999999999999").number, 1e20);
}

TEST(Term, ExpressionsArePrefixFormOfFunctions) {
    EXPECT_EQ(expression("add(@0,mul(@1,-2.5))"), "add(@0, mul(@1, -2.500000))");
    EXPECT_EQ(expression("[size(@0,0),8,mul(size(@0,2),size(@0,3))]"),
              "[size(@0, 0), 8, mul(size(@0, 2), size(@0, 3))]");
    EXPECT_EQ(expression("[None,@0]"), "[None, @0]");
    EXPECT_EQ(expression("ij"), "ij");
    EXPECT_EQ(expression("None"), "None");
    // As pnnx writes it.
    EXPECT_EQ(expression("expm1,@0"), "expm1(@0)");
}

TEST(Term, MalformedExpressionsAreRefused) {
    for (auto text : {"add(@0)", "add(@0,@1", "add(@0,@1,@2)", "@x", "@", "[1,2", "add(,)", "sqrt()", "[1]2", "(@0)",
                      "@99999999999"})
        EXPECT_FALSE(parse_expression(text).ok()) << text << " is " << expression(text);
    EXPECT_FALSE(parse_expression(std::string(100000, '[')).ok());
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += "neg(";
    EXPECT_FALSE(parse_expression(deep).ok());
}

TEST(Scalar, SizesThroughFloatsStaySymbolic) {
    SymbolTable symbols;
    auto n = DimExpr::symbol(symbols.intern("N"));
    auto half = multiply(Scalar::of_int(n), Scalar::of_float(0.5));
    ASSERT_TRUE(half);
    EXPECT_TRUE(half->is_float());
    auto whole = round_to(*half, Scalar::Rounding::Floor, true);
    ASSERT_TRUE(whole && whole->integer());
    EXPECT_EQ(*whole->integer(), floor_div(n, 2));
    auto up = round_to(*divide(Scalar::of_int(n), Scalar::of_int(3)), Scalar::Rounding::Ceil, true);
    EXPECT_EQ(*up->integer(), ceil_div(n, 3));
    EXPECT_EQ(*remainder(Scalar::of_int(n * 4 + 3), Scalar::of_int(4))->integer(), DimExpr(3));
}

TEST(Scalar, ConstantsFollowPython) {
    EXPECT_EQ(floor_divide(Scalar::of_int(-7), Scalar::of_int(2))->constant(), -4);
    EXPECT_EQ(remainder(Scalar::of_int(-7), Scalar::of_int(4))->constant(), 1);
    EXPECT_EQ(divide(Scalar::of_int(7), Scalar::of_int(2))->constant(), 3.5);
    EXPECT_EQ(round_to(Scalar::of_float(-1.5), Scalar::Rounding::Truncate, true)->constant(), -1);
    EXPECT_FALSE(divide(Scalar::of_int(1), Scalar::of_int(0)));
    EXPECT_FALSE(floor_divide(Scalar::of_int(1), Scalar::of_int(0)));
}

}  // namespace
}  // namespace refactor::pnnx
