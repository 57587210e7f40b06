#pragma once
#include "call.h"
#include "promotion.h"

namespace refactor::pnnx {

/// Collects one elementwise program: functions of torch on operands of any type, with torch's type promotion. Example,
/// `x / 2`:
///
///     Formula f(call);
///     Edge y = f.finish(f.apply("div", {f.of(x), f.of(Scalar::of_int(2))}));
class Formula {
public:
    /// A value of the program, or a number that is not part of it yet.
    struct Operand {
        std::optional<Scalar> number;
        Expression::Value value = 0;
        DataType dtype = DataType::I64;
        Weight weight = Weight::Number;
    };

    explicit Formula(Call& call) : call_(call) {}

    Operand of(Edge edge);
    Operand of(Scalar number);
    Operand of(Item const& item);
    /// A function of pnnx.Expression.
    Operand apply(std::string_view name, std::vector<Operand> operands);
    /// The program as a node; the edge itself if there is nothing to compute.
    Edge finish(Operand const& result);

private:
    Call& call_;
    Expression expression_;
    std::vector<Edge> inputs_;
    std::vector<Shape> shapes_;
    std::vector<Expression::Value> input_values_;
    size_t instructions_ = 0;

    Expression::Value input(Edge edge);
    Expression::Value as(Operand const& operand, DataType dtype);
    Operand make(Expression::Value value, std::vector<Operand> const& operands) const;
    DataType common(std::vector<Operand> const& operands) const;
    std::optional<Operand> of_numbers(std::string_view name, std::vector<Operand> const& operands);
    Operand unary(std::string_view name, std::vector<Operand> const& operands);
    Operand binary(std::string_view name, std::vector<Operand> const& operands);
    Expression::Value float_function(std::string_view name, Expression::Value x);
    Expression::Value divide_down(Expression::Value a, Expression::Value b);
    Expression::Value remainder(Expression::Value a, Expression::Value b);
    Expression::Value power(Expression::Value a, Operand const& exponent, DataType dtype);
};

}  // namespace refactor::pnnx
