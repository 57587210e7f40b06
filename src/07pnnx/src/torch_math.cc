#include "torch_math.h"

#include <numbers>

namespace refactor::pnnx {

using frontend::Expression;
using Op = Expression::Op;
using Value = Expression::Value;

namespace {

Value number(Expression& e, Value like, double value) { return e.constant(e.dtype(like), value); }

/// The sign bit of x, also of a zero.
Value is_negative(Expression& e, Value x) {
    auto zero = number(e, x, 0);
    return e.binary(Op::Or, e.binary(Op::Less, x, zero), e.binary(Op::Less, e.unary(Op::Reciprocal, x), zero));
}

}  // namespace

Value log1p(Expression& e, Value x) {
    auto one = number(e, x, 1), u = e.binary(Op::Add, x, one), logarithm = e.unary(Op::Log, u);
    auto precise = e.binary(Op::Mul, logarithm, e.binary(Op::Div, x, e.binary(Op::Sub, u, one)));
    auto limit = e.select(e.binary(Op::Equal, u, one), x, precise);
    return e.select(e.unary(Op::IsInf, u, 1, 1), logarithm, limit);
}

Value expm1(Expression& e, Value x) {
    auto one = number(e, x, 1), u = e.unary(Op::Exp, x), difference = e.binary(Op::Sub, u, one);
    auto precise = e.binary(Op::Mul, difference, e.binary(Op::Div, x, e.unary(Op::Log, u)));
    auto limit = e.select(e.binary(Op::Equal, u, one), x, precise);
    // Where exp(x) is 0 or infinite the quotient is not a number, and the difference is the result.
    auto extreme = e.binary(Op::Or, e.unary(Op::IsInf, u, 1, 1), e.binary(Op::Equal, u, number(e, x, 0)));
    return e.select(extreme, difference, limit);
}

Value truncate(Expression& e, Value x) {
    return e.select(e.binary(Op::Less, x, number(e, x, 0)), e.unary(Op::Ceil, x), e.unary(Op::Floor, x));
}

Value atan2(Expression& e, Value y, Value x) {
    auto zero = number(e, x, 0), pi = number(e, x, std::numbers::pi), half = number(e, x, std::numbers::pi / 2);
    auto down = is_negative(e, y);
    auto angle = e.unary(Op::Atan, e.binary(Op::Div, y, x));
    auto turn = e.select(down, e.unary(Op::Neg, pi), pi);
    auto turned = e.select(is_negative(e, x), e.binary(Op::Add, angle, turn), angle);
    auto vertical = e.select(down, e.unary(Op::Neg, half), half);
    // On the axis x = 0 the quotient is 0 / 0 only for y = 0.
    auto origin = e.select(is_negative(e, x), turn, y);
    auto on_axis = e.select(e.binary(Op::Equal, y, zero), origin, vertical);
    return e.select(e.binary(Op::Equal, x, zero), on_axis, turned);
}

Value logaddexp(Expression& e, Value a, Value b) {
    auto top = e.binary(Op::Max, a, b);
    auto gap = e.unary(Op::Neg, e.unary(Op::Abs, e.binary(Op::Sub, a, b)));
    // Two equal infinities have no difference.
    auto sum = e.binary(Op::Add, top, log1p(e, e.unary(Op::Exp, gap)));
    return e.select(e.unary(Op::IsInf, top, 1, 1), top, sum);
}

Value float_remainder(Expression& e, Value a, Value b) {
    auto zero = number(e, a, 0), rest = e.binary(Op::Fmod, a, b);
    auto other_sign = e.binary(Op::Xor, e.binary(Op::Less, rest, zero), e.binary(Op::Less, b, zero));
    auto wrong = e.binary(Op::And, other_sign, e.unary(Op::Not, e.binary(Op::Equal, rest, zero)));
    return e.select(wrong, e.binary(Op::Add, rest, b), rest);
}

}  // namespace refactor::pnnx
