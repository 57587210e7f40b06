#include "formula.h"

#include "torch_math.h"

#include <algorithm>
#include <cmath>

namespace refactor::pnnx {

namespace {

using Value = Expression::Value;
using Operands = std::vector<Formula::Operand>;
using Rounding = Scalar::Rounding;

struct Simple {
    std::string_view name;
    ExprOp op;
};
/// Functions that are one instruction; results of floats only.
constexpr Simple kFloatFunctions[]{
    {"acos", ExprOp::Acos},   {"acosh", ExprOp::Acosh},     {"asin", ExprOp::Asin}, {"asinh", ExprOp::Asinh},
    {"atan", ExprOp::Atan},   {"atanh", ExprOp::Atanh},     {"cos", ExprOp::Cos},   {"cosh", ExprOp::Cosh},
    {"erf", ExprOp::Erf},     {"exp", ExprOp::Exp},         {"log", ExprOp::Log},   {"reciprocal", ExprOp::Reciprocal},
    {"rsqrt", ExprOp::Rsqrt}, {"sigmoid", ExprOp::Sigmoid}, {"sin", ExprOp::Sin},   {"sinh", ExprOp::Sinh},
    {"sqrt", ExprOp::Sqrt},   {"tan", ExprOp::Tan},         {"tanh", ExprOp::Tanh},
};
/// Of any number, the type stays.
constexpr Simple kSameType[]{{"abs", ExprOp::Abs}, {"neg", ExprOp::Neg}, {"sign", ExprOp::Sign}};
/// The identity on integers.
constexpr Simple kRounding[]{{"ceil", ExprOp::Ceil}, {"floor", ExprOp::Floor}, {"round", ExprOp::Round}};
constexpr Simple kComparisons[]{{"eq", ExprOp::Equal},
                                {"ge", ExprOp::GreaterEqual},
                                {"gt", ExprOp::Greater},
                                {"le", ExprOp::LessEqual},
                                {"lt", ExprOp::Less}};
constexpr Simple kArithmetic[]{{"add", ExprOp::Add},     {"fmod", ExprOp::Fmod}, {"max", ExprOp::Max},
                               {"maximum", ExprOp::Max}, {"min", ExprOp::Min},   {"minimum", ExprOp::Min},
                               {"mul", ExprOp::Mul},     {"sub", ExprOp::Sub}};
struct Bitwise {
    std::string_view name;
    ExprOp integers, booleans;
};
constexpr Bitwise kBitwise[]{{"and", ExprOp::BitAnd, ExprOp::And},
                             {"or", ExprOp::BitOr, ExprOp::Or},
                             {"xor", ExprOp::BitXor, ExprOp::Xor},
                             {"lshift", ExprOp::ShiftLeft, ExprOp::ShiftLeft},
                             {"rshift", ExprOp::ShiftRight, ExprOp::ShiftRight}};

template <class T, size_t N>
T const* find(T const (&table)[N], std::string_view name) {
    auto it = std::find_if(std::begin(table), std::end(table), [&](T const& entry) { return entry.name == name; });
    return it == std::end(table) ? nullptr : it;
}

std::optional<Scalar> unary_number(std::string_view name, Scalar const& x) {
    if (name == "neg") return multiply(x, Scalar::of_int(-1));
    if (name == "floor") return round_to(x, Rounding::Floor, false);
    if (name == "ceil") return round_to(x, Rounding::Ceil, false);
    if (name == "trunc") return round_to(x, Rounding::Truncate, false);
    if (name == "int") return round_to(x, Rounding::Truncate, true);
    if (name == "float") return multiply(x, Scalar::of_float(1));
    if (name == "square") return multiply(x, x);
    if (name == "reciprocal") return divide(Scalar::of_int(1), x);
    auto number = x.constant();
    if (!number) return std::nullopt;
    if (name == "sqrt") return Scalar::of_float(std::sqrt(*number));
    if (name == "rsqrt") return Scalar::of_float(1 / std::sqrt(*number));
    if (name == "exp") return Scalar::of_float(std::exp(*number));
    if (name == "log") return Scalar::of_float(std::log(*number));
    if (name == "round") return x.is_float() ? Scalar::of_float(std::nearbyint(*number)) : x;
    if (name == "abs") return *number < 0 ? multiply(x, Scalar::of_int(-1)) : x;
    return std::nullopt;
}

std::optional<Scalar> binary_number(std::string_view name, Scalar const& a, Scalar const& b) {
    if (name == "add") return add(a, b);
    if (name == "sub") return subtract(a, b);
    if (name == "rsub") return subtract(b, a);
    if (name == "mul") return multiply(a, b);
    if (name == "div") return divide(a, b);
    if (name == "floor_divide") return floor_divide(a, b);
    if (name == "remainder") return remainder(a, b);
    if (name == "max" || name == "maximum") return extremum(a, b, true);
    if (name == "min" || name == "minimum") return extremum(a, b, false);
    auto x = a.constant(), y = b.constant();
    if (name == "pow" && y == 2) return multiply(a, a);
    if (name == "pow" && y == 1) return a;
    if (!x || !y || name != "pow") return std::nullopt;
    auto power = std::pow(*x, *y);
    if (a.is_float() || b.is_float() || *y < 0 || !(std::abs(power) < 0x1p53)) return Scalar::of_float(power);
    return Scalar::of_int(static_cast<int64_t>(power));
}

}  // namespace

Value Formula::input(Edge edge) {
    for (size_t i = 0; i < inputs_.size(); ++i)
        if (inputs_[i] == edge) return input_values_[i];
    auto value = expression_.input(static_cast<uint16_t>(inputs_.size()), edge->value.dtype);
    inputs_.push_back(edge), shapes_.push_back(edge->value.shape), input_values_.push_back(value);
    return value;
}

Formula::Operand Formula::of(Edge edge) {
    return {std::nullopt, input(edge), edge->value.dtype, edge->value.shape.empty() ? Weight::Scalar : Weight::Tensor};
}

Formula::Operand Formula::of(Scalar number) {
    auto dtype = number.is_float() ? DataType::F32 : DataType::I64;
    return {std::move(number), 0, dtype, Weight::Number};
}

Formula::Operand Formula::of(Item const& item) {
    if (auto* edge = item.edge()) return of(*edge);
    if (auto* number = std::get_if<Scalar>(&item.value)) return of(*number);
    if (auto* flag = std::get_if<bool>(&item.value)) {
        auto operand = of(Scalar::of_int(*flag));
        operand.dtype = DataType::Bool;
        return operand;
    }
    refuse_invalid("an operand of a formula is no number and no tensor");
}

/// The operand as a value of type `dtype`.
Value Formula::as(Operand const& operand, DataType dtype) {
    if (!operand.number) return expression_.cast(operand.value, dtype);
    if (auto number = operand.number->constant()) return expression_.constant(dtype, *number);
    return input(call_.size_edge(*operand.number, dtype));
}

DataType Formula::common(Operands const& operands) const {
    auto dtype = operands[0].dtype;
    auto weight = operands[0].weight;
    for (size_t i = 1; i < operands.size(); ++i) {
        dtype = promote(dtype, weight, operands[i].dtype, operands[i].weight);
        weight = std::max(weight, operands[i].weight);
    }
    return dtype;
}

Formula::Operand Formula::make(Value value, Operands const& operands) const {
    auto weight = Weight::Number;
    for (auto const& operand : operands) weight = std::max(weight, operand.weight);
    return {std::nullopt, value, expression_.dtype(value), weight};
}

std::optional<Formula::Operand> Formula::of_numbers(std::string_view name, Operands const& operands) {
    for (auto const& operand : operands)
        if (!operand.number) return std::nullopt;
    auto result = operands.size() == 1 ? unary_number(name, *operands[0].number)
                                       : binary_number(name, *operands[0].number, *operands[1].number);
    if (!result) return std::nullopt;
    return of(std::move(*result));
}

Value Formula::float_function(std::string_view name, Value x) {
    auto& e = expression_;
    if (auto* simple = find(kFloatFunctions, name)) return e.unary(simple->op, x);
    if (name == "log10")
        return e.binary(ExprOp::Mul, e.unary(ExprOp::Log, x), e.constant(e.dtype(x), 1 / std::log(10.0)));
    if (name == "log1p") return log1p(e, x);
    if (name == "expm1") return expm1(e, x);
    refuse_unsupported("the function ", name, " of a formula");
}

Formula::Operand Formula::unary(std::string_view name, Operands const& operands) {
    auto& e = expression_;
    auto const& x = operands[0];
    if (auto* simple = find(kSameType, name)) return make(e.unary(simple->op, as(x, x.dtype)), operands);
    if (name == "int") return make(as(x, DataType::I64), operands);
    if (name == "float") return make(as(x, DataType::F32), operands);
    auto* rounding = find(kRounding, name);
    if ((rounding || name == "trunc") && !is_float(x.dtype)) return x;
    if (rounding) return make(e.unary(rounding->op, as(x, x.dtype)), operands);
    if (name == "trunc") return make(truncate(e, as(x, x.dtype)), operands);
    if (name == "square") {
        auto value = as(x, x.dtype);
        return make(e.binary(ExprOp::Mul, value, value), operands);
    }
    return make(float_function(name, as(x, float_of(x.dtype))), operands);
}

/// Python's `%`: the sign is that of the divisor.
Value Formula::remainder(Value a, Value b) {
    auto& e = expression_;
    if (!is_float(e.dtype(a))) return e.binary(ExprOp::Mod, a, b);
    return float_remainder(e, a, b);
}

/// Python's `//`. Source: torch.floor_divide.
Value Formula::divide_down(Value a, Value b) {
    auto& e = expression_;
    auto exact = e.binary(ExprOp::Div, e.binary(ExprOp::Sub, a, remainder(a, b)), b);
    if (!is_float(e.dtype(a))) return exact;
    auto by_zero = e.binary(ExprOp::Equal, b, e.constant(e.dtype(b), 0));
    return e.select(by_zero, e.binary(ExprOp::Div, a, b), e.unary(ExprOp::Round, exact));
}

Value Formula::power(Value a, Operand const& exponent, DataType dtype) {
    auto& e = expression_;
    auto number = exponent.number ? exponent.number->constant() : std::nullopt;
    if (number == 2) return e.binary(ExprOp::Mul, a, a);
    if (number == 1) return a;
    if (number == 0.5) return e.unary(ExprOp::Sqrt, a);
    if (number == -1 && is_float(dtype)) return e.unary(ExprOp::Reciprocal, a);
    return e.binary(ExprOp::Pow, a, as(exponent, dtype));
}

Formula::Operand Formula::binary(std::string_view name, Operands const& operands) {
    auto& e = expression_;
    if (name == "rsub") return binary("sub", {operands[1], operands[0]});
    auto dtype = common(operands);
    if (name == "div" || name == "atan2" || name == "logaddexp") dtype = float_of(dtype);
    auto a = as(operands[0], dtype);
    if (name == "pow") return make(power(a, operands[1], dtype), operands);
    auto b = as(operands[1], dtype);
    auto result = [&]() -> Value {
        if (auto* bits = find(kBitwise, name))
            return e.binary(dtype == DataType::Bool ? bits->booleans : bits->integers, a, b);
        if (auto* comparison = find(kComparisons, name)) return e.binary(comparison->op, a, b);
        if (name == "ne") return e.unary(ExprOp::Not, e.binary(ExprOp::Equal, a, b));
        // Sums and products of bools are bools in torch.
        if (dtype == DataType::Bool && name == "add") return e.binary(ExprOp::Or, a, b);
        if (dtype == DataType::Bool && name == "mul") return e.binary(ExprOp::And, a, b);
        if (auto* simple = find(kArithmetic, name)) return e.binary(simple->op, a, b);
        if (name == "div") return e.binary(ExprOp::Div, a, b);
        if (name == "floor_divide") return divide_down(a, b);
        if (name == "remainder") return remainder(a, b);
        if (name == "atan2") return atan2(e, a, b);
        if (name == "logaddexp") return logaddexp(e, a, b);
        refuse_unsupported("the function ", name, " of a formula");
    }();
    return make(result, operands);
}

Formula::Operand Formula::apply(std::string_view name, Operands operands) {
    // Values of a program are numbered in 16 bits, and no function takes more than 32 instructions.
    if (++instructions_ > 2000) refuse_unsupported("a formula of more than 2000 functions");
    if (auto number = of_numbers(name, operands)) return *number;
    return operands.size() == 1 ? unary(name, operands) : binary(name, operands);
}

Edge Formula::finish(Operand const& result) {
    if (result.number) return call_.size_edge(*result.number, result.dtype);
    for (size_t i = 0; i < inputs_.size(); ++i)
        if (input_values_[i] == result.value) return inputs_[i];
    return call_.emit(expression_.finish(result.value), inputs_, result.dtype, call_.broadcast(shapes_));
}

}  // namespace refactor::pnnx
