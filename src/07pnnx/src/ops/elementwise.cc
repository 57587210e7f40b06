#include "formula.h"
#include "operator_def.h"
#include "torch_math.h"

#include <cmath>
#include <numbers>

// Elementwise operators that pnnx does not fold into expressions, with torch's type promotion.

namespace refactor::pnnx {

namespace {

/// "torch.bitwise_and" → "bitwise_and"
std::string_view base_name(std::string_view type) { return type.substr(type.find_last_of(".:") + 1); }

/// One function of a formula on `input` and `other`, after which it is called.
void build_formula(Call& c) {
    auto name = base_name(c.type);
    if (name.starts_with("bitwise_")) name.remove_prefix(8);
    if (name == "left_shift") name = "lshift";
    if (name == "right_shift") name = "rshift";
    Formula f(c);
    std::vector<Formula::Operand> operands{f.of(c.tensor("input"))};
    if (c.has("other")) operands.push_back(f.of(c.item("other")));
    c.set(f.finish(f.apply(name, std::move(operands))));
}

/// torch.pow: either side may be a number.
void build_pow(Call& c) {
    Formula f(c);
    c.set(f.finish(f.apply("pow", {f.of(c.item("input")), f.of(c.item("exponent"))})));
}

/// input ± alpha · other
template <bool kSubtract, bool kReverse>
void build_add(Call& c) {
    Formula f(c);
    auto a = f.of(c.item("input")), b = f.of(c.item("other"));
    if (kReverse) std::swap(a, b);
    if (auto alpha = c.number("alpha", 1); alpha != 1) {
        auto& scaled = kReverse ? a : b;
        scaled = f.apply("mul", {scaled, f.of(c.item("alpha"))});
    }
    c.set(f.finish(f.apply(kSubtract ? "sub" : "add", {a, b})));
}

void build_div(Call& c) {
    auto mode = c.text("rounding_mode", "");
    Formula f(c);
    auto a = f.of(c.item("input")), b = f.of(c.item("other"));
    if (mode == "floor") return c.set(f.finish(f.apply("floor_divide", {a, b})));
    if (mode.empty()) return c.set(f.finish(f.apply("div", {a, b})));
    if (mode != "trunc") refuse_invalid("rounding_mode is \"", mode, "\", expected floor or trunc");
    auto dtype = promote(a.dtype, a.weight, b.dtype, b.weight);
    if (is_float(dtype)) return c.set(f.finish(f.apply("trunc", {f.apply("div", {a, b})})));
    // Integer instructions divide as C does.
    auto *x = c.cast(c.edge_of(c.item("input")), dtype), *y = c.cast(c.edge_of(c.item("other")), dtype);
    c.set(c.binary(ExprOp::Div, x, y));
}

Edge truth(Call& c, Edge x) { return c.cast(x, DataType::Bool); }

template <ExprOp kOp>
void build_logical(Call& c) {
    auto* x = truth(c, c.tensor("input"));
    c.set(kOp == ExprOp::Not ? c.unary(kOp, x) : c.binary(kOp, x, truth(c, c.tensor("other"))));
}

void build_bitwise_not(Call& c) {
    auto* x = c.tensor("input");
    c.set(c.unary(Call::type_of(x) == DataType::Bool ? ExprOp::Not : ExprOp::BitNot, x));
}

void build_where(Call& c) {
    Formula f(c);
    auto a = f.of(c.item("input")), b = f.of(c.item("other"));
    auto dtype = promote(a.dtype, a.weight, b.dtype, b.weight);
    auto *x = c.edge_of(c.item("input"), dtype), *y = c.edge_of(c.item("other"), dtype);
    auto inputs = {truth(c, c.tensor("condition")), c.cast(x, dtype), c.cast(y, dtype)};
    c.set(c.map(inputs, [](Expression& e, auto const& v) { return e.select(v[0], v[1], v[2]); }));
}

/// The type stays that of the input.
void build_masked_fill(Call& c) {
    auto* x = c.tensor("input");
    auto* value = c.cast(c.edge_of(c.item("value"), Call::type_of(x)), Call::type_of(x));
    auto inputs = {truth(c, c.tensor("mask")), value, x};
    c.set(c.map(inputs, [](Expression& e, auto const& v) { return e.select(v[0], v[1], v[2]); }));
}

void build_fill(Call& c) {
    auto* x = c.tensor("input");
    auto* value = c.cast(c.edge_of(c.item("value"), Call::type_of(x)), Call::type_of(x));
    c.set(c.expand(value, Call::shape(x)));
}

/// Functions of one float that are a short program.
void build_float_function(Call& c) {
    auto name = base_name(c.type);
    auto* x = c.tensor("input");
    auto dtype = float_of(Call::type_of(x));
    c.set(c.map({c.cast(x, dtype)}, [&](Expression& e, auto const& v) {
        auto number = [&](double value) { return e.constant(dtype, value); };
        if (name == "log2") return e.binary(ExprOp::Mul, e.unary(ExprOp::Log, v[0]), number(std::numbers::log2e));
        if (name == "exp2") return e.binary(ExprOp::Pow, number(2), v[0]);
        if (name == "erfc") return e.binary(ExprOp::Sub, number(1), e.unary(ExprOp::Erf, v[0]));
        if (name == "frac") return e.binary(ExprOp::Sub, v[0], truncate(e, v[0]));
        if (name == "deg2rad") return e.binary(ExprOp::Mul, v[0], number(std::numbers::pi / 180));
        return e.binary(ExprOp::Mul, v[0], number(180 / std::numbers::pi));  // rad2deg
    }));
}

void build_logit(Call& c) {
    auto* x = c.tensor("input");
    auto dtype = Call::type_of(x);
    auto eps = c.number("eps", -1);
    c.set(c.map({x}, [&](Expression& e, auto const& v) {
        auto p = eps < 0 ? v[0] : e.clip(v[0], e.constant(dtype, eps), e.constant(dtype, 1 - eps));
        return e.unary(ExprOp::Log, e.binary(ExprOp::Div, p, e.binary(ExprOp::Sub, e.constant(dtype, 1), p)));
    }));
}

void build_nan_to_num(Call& c) {
    auto* x = c.tensor("input");
    auto dtype = Call::type_of(x);
    if (!is_float(dtype)) return c.set(x);
    auto top = dtype == DataType::F64   ? 1.7976931348623157e308
               : dtype == DataType::F16 ? 65504.
                                        : 3.4028234663852886e38;
    c.set(c.map({x}, [&](Expression& e, auto const& v) {
        auto number = [&](std::string_view name, double fallback) {
            return e.constant(dtype, c.number(name, fallback));
        };
        auto high = e.select(e.unary(ExprOp::IsInf, v[0], 1, 0), number("posinf", top), v[0]);
        auto low = e.select(e.unary(ExprOp::IsInf, v[0], 0, 1), number("neginf", -top), high);
        return e.select(e.unary(ExprOp::IsNan, v[0]), number("nan", 0), low);
    }));
}

void build_is_nan(Call& c) { c.set(c.unary(ExprOp::IsNan, c.tensor("input"))); }
void build_is_inf(Call& c) { c.set(c.unary(ExprOp::IsInf, c.tensor("input"), 1, 1)); }
void build_is_finite(Call& c) {
    c.set(c.map({c.tensor("input")}, [](Expression& e, auto const& v) {
        return e.unary(ExprOp::Not,
                       e.binary(ExprOp::Or, e.unary(ExprOp::IsNan, v[0]), e.unary(ExprOp::IsInf, v[0], 1, 1)));
    }));
}

/// sqrt(a² + b²), scaled by the larger so that nothing overflows.
void build_hypot(Call& c) {
    c.set(c.map({c.tensor("input"), c.tensor("other")}, [](Expression& e, auto const& v) {
        auto a = e.unary(ExprOp::Abs, v[0]), b = e.unary(ExprOp::Abs, v[1]);
        auto high = e.binary(ExprOp::Max, a, b), low = e.binary(ExprOp::Min, a, b);
        auto ratio = e.binary(ExprOp::Div, low, high), one = e.constant(e.dtype(high), 1);
        auto root = e.unary(ExprOp::Sqrt, e.binary(ExprOp::Add, one, e.binary(ExprOp::Mul, ratio, ratio)));
        auto trivial = e.binary(ExprOp::Equal, high, e.constant(e.dtype(high), 0));
        trivial = e.binary(ExprOp::Or, trivial, e.unary(ExprOp::IsInf, high, 1, 1));
        return e.select(trivial, high, e.binary(ExprOp::Mul, high, root));
    }));
}

/// start + weight · (end - start)
void build_lerp(Call& c) {
    Formula f(c);
    auto start = f.of(c.tensor("input"));
    auto span = f.apply("sub", {f.of(c.tensor("end")), start});
    c.set(f.finish(f.apply("add", {start, f.apply("mul", {f.of(c.item("weight")), span})})));
}

/// input + value · tensor1 (· or /) tensor2
template <bool kDivide>
void build_addc(Call& c) {
    Formula f(c);
    auto term = f.apply(kDivide ? "div" : "mul", {f.of(c.tensor("tensor1")), f.of(c.tensor("tensor2"))});
    if (c.number("value", 1) != 1) term = f.apply("mul", {term, f.of(c.item("value"))});
    c.set(f.finish(f.apply("add", {f.of(c.tensor("input")), term})));
}

}  // namespace

void define_elementwise(Definitions& all) {
    all.push_back(
        {"torch.abs torch.acos torch.acosh torch.asin torch.asinh torch.atan torch.atanh torch.ceil torch.cos "
         "torch.cosh torch.erf torch.exp torch.expm1 torch.floor torch.log torch.log10 torch.log1p torch.neg "
         "torch.reciprocal torch.round torch.rsqrt torch.sign torch.sin torch.sinh torch.sqrt torch.square "
         "torch.tan torch.trunc aten::abs aten::acos aten::acosh aten::asin aten::asinh aten::atan aten::atanh "
         "aten::ceil aten::cos aten::cosh aten::erf aten::exp aten::expm1 aten::floor aten::log aten::log10 "
         "aten::log1p aten::neg aten::reciprocal aten::round aten::rsqrt aten::sign aten::sin aten::sinh "
         "aten::sqrt aten::square aten::tan aten::trunc",
         "input", build_formula});
    all.push_back(
        {"torch.eq torch.ne torch.lt torch.le torch.gt torch.ge aten::eq aten::ne aten::lt aten::le aten::gt "
         "aten::ge torch.bitwise_and torch.bitwise_or torch.bitwise_xor torch.bitwise_left_shift "
         "torch.bitwise_right_shift aten::bitwise_and aten::bitwise_or aten::bitwise_xor "
         "aten::bitwise_left_shift aten::bitwise_right_shift torch.mul torch.floor_divide torch.remainder "
         "torch.fmod torch.maximum torch.minimum torch.logaddexp torch.atan2 aten::mul aten::floor_divide "
         "aten::remainder aten::fmod aten::maximum aten::minimum aten::logaddexp aten::atan2",
         "input other", build_formula});
    all.push_back({"torch.pow aten::pow", "input exponent", build_pow});
    all.push_back({"torch.add aten::add", "input other alpha", build_add<false, false>});
    all.push_back({"torch.sub aten::sub", "input other alpha", build_add<true, false>});
    all.push_back({"torch.rsub aten::rsub", "input other alpha", build_add<true, true>});
    all.push_back({"torch.div aten::div", "input other rounding_mode", build_div});
    all.push_back({"torch.logical_and aten::logical_and aten::__and__", "input other", build_logical<ExprOp::And>});
    all.push_back({"torch.logical_or aten::logical_or aten::__or__", "input other", build_logical<ExprOp::Or>});
    all.push_back({"torch.logical_xor aten::logical_xor", "input other", build_logical<ExprOp::Xor>});
    all.push_back({"torch.logical_not aten::logical_not", "input", build_logical<ExprOp::Not>});
    all.push_back({"torch.bitwise_not aten::bitwise_not", "input", build_bitwise_not});
    all.push_back({"torch.where aten::where", "condition input other", build_where});
    all.push_back({"Tensor.masked_fill aten::masked_fill", "input mask value", build_masked_fill});
    all.push_back({"Tensor.fill aten::fill", "input value", build_fill});
    all.push_back(
        {"aten::log2 aten::exp2 aten::erfc aten::frac aten::deg2rad aten::rad2deg torch.log2 torch.exp2 "
         "torch.erfc torch.frac",
         "input", build_float_function});
    all.push_back({"aten::logit torch.logit", "input eps", build_logit});
    all.push_back({"aten::nan_to_num torch.nan_to_num", "input nan posinf neginf", build_nan_to_num});
    all.push_back({"aten::isnan torch.isnan", "input", build_is_nan});
    all.push_back({"aten::isinf torch.isinf", "input", build_is_inf});
    all.push_back({"aten::isfinite torch.isfinite", "input", build_is_finite});
    all.push_back({"aten::hypot torch.hypot", "input other", build_hypot});
    all.push_back({"aten::lerp torch.lerp", "input end weight", build_lerp});
    all.push_back({"aten::addcmul torch.addcmul", "input tensor1 tensor2 value", build_addc<false>});
    all.push_back({"aten::addcdiv torch.addcdiv", "input tensor1 tensor2 value", build_addc<true>});
}

}  // namespace refactor::pnnx
