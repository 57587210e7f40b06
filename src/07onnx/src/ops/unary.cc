#include "computation/operator.h"
#include "frontend/expression.h"
#include "operator_def.h"
#include "size_values.h"

#include <algorithm>

// Elementwise operators with one tensor input.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using Value = Expression::Value;

/// An operator that is one instruction; `alpha` and `beta` are the names and defaults of its attributes.
struct Unary {
    std::string_view name;
    ExprOp op;
    TypeSet types;
    struct Parameter {
        std::string_view name;
        float fallback;
    } alpha{}, beta{};
};

constexpr TypeSet kF8 = types(DataType::F8E4M3FN, DataType::F8E4M3FNUZ, DataType::F8E5M2, DataType::F8E5M2FNUZ);
constexpr Unary kUnary[]{
    {"Abs", ExprOp::Abs, kNumbers},
    {"Acos", ExprOp::Acos, kFloats},
    {"Acosh", ExprOp::Acosh, kFloats},
    {"Asin", ExprOp::Asin, kFloats},
    {"Asinh", ExprOp::Asinh, kFloats},
    {"Atan", ExprOp::Atan, kFloats},
    {"Atanh", ExprOp::Atanh, kFloats},
    {"BitwiseNot", ExprOp::BitNot, kIntegers},
    {"Ceil", ExprOp::Ceil, kFloats},
    {"Celu", ExprOp::Celu, kFloats, {"alpha", 1}},
    {"Cos", ExprOp::Cos, kFloats},
    {"Cosh", ExprOp::Cosh, kFloats},
    {"Elu", ExprOp::Elu, kFloats, {"alpha", 1}},
    {"Erf", ExprOp::Erf, kNumbers},
    {"Exp", ExprOp::Exp, kFloats},
    {"Floor", ExprOp::Floor, kFloats},
    {"HardSigmoid", ExprOp::HardSigmoid, kFloats, {"alpha", 0.2f}, {"beta", 0.5f}},
    {"HardSwish", ExprOp::HardSwish, kFloats},
    {"IsNaN", ExprOp::IsNan, kFloats | kF8},
    {"LeakyRelu", ExprOp::LeakyRelu, kFloats, {"alpha", 0.01f}},
    {"Log", ExprOp::Log, kFloats},
    {"Mish", ExprOp::Mish, kFloats},
    {"Neg", ExprOp::Neg, kFloats | kSigned},
    {"Not", ExprOp::Not, kBool},
    {"Reciprocal", ExprOp::Reciprocal, kFloats},
    {"Relu", ExprOp::Relu, kFloats | kSigned},
    {"Round", ExprOp::Round, kFloats},
    {"Selu", ExprOp::Selu, kFloats, {"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}},
    {"Shrink", ExprOp::Shrink, kNumbers, {"bias", 0}, {"lambd", 0.5f}},
    {"Sigmoid", ExprOp::Sigmoid, kFloats},
    {"Sign", ExprOp::Sign, kNumbers},
    {"Sin", ExprOp::Sin, kFloats},
    {"Sinh", ExprOp::Sinh, kFloats},
    {"Softplus", ExprOp::Softplus, kFloats},
    {"Softsign", ExprOp::Softsign, kFloats},
    {"Sqrt", ExprOp::Sqrt, kFloats},
    {"Tan", ExprOp::Tan, kFloats},
    {"Tanh", ExprOp::Tanh, kFloats},
    {"ThresholdedRelu", ExprOp::ThresholdedRelu, kFloats, {"alpha", 1}},
};

Unary const& find_unary(std::string_view name) {
    return *std::find_if(std::begin(kUnary), std::end(kUnary), [&](Unary const& u) { return u.name == name; });
}

Status infer_unary(InferContext& c, NodeView const& n) {
    auto op = find_unary(n.op_type).op;
    RG_CHECK_STATUS(c.set(0, op == ExprOp::IsNan ? DataType::Bool : c.dtype(0), c.shape(0)));
    if (auto values = elementwise_values(c, c.shape(0), element_rule(n))) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status lower_unary(LowerContext& c, NodeView const& n) {
    auto const& unary = find_unary(n.op_type);
    auto parameter = [&](Unary::Parameter const& p) { return p.name.empty() ? 0.f : n.number(p.name, p.fallback); };
    auto alpha = parameter(unary.alpha), beta = parameter(unary.beta);
    // Kernel order: Shrink(lambd, bias).
    if (unary.op == ExprOp::Shrink) std::swap(alpha, beta);
    Expression e;
    auto input = e.input(0, c.dtype(0));
    // These compute in floats also where X is an integer.
    bool widens = (unary.op == ExprOp::Shrink || unary.op == ExprOp::Erf) && is_integer(c.dtype(0));
    auto result = e.unary(unary.op, widens ? e.cast(input, DataType::F64) : input, alpha, beta);
    if (widens) result = e.cast(result, c.dtype(0));
    c.emit_output(computation::make_operator(e.finish(result)), {c.edge(0)});
    return std::nullopt;
}

Status infer_is_inf(InferContext& c, NodeView const&) { return c.set(0, DataType::Bool, c.shape(0)); }

Status lower_is_inf(LowerContext& c, NodeView const& n) {
    Expression e;
    auto positive = static_cast<float>(n.integer("detect_positive", 1) != 0);
    auto negative = static_cast<float>(n.integer("detect_negative", 1) != 0);
    c.emit_output(
        computation::make_operator(e.finish(e.unary(ExprOp::IsInf, e.input(0, c.dtype(0)), positive, negative))),
        {c.edge(0)});
    return std::nullopt;
}

Status infer_gelu(InferContext& c, NodeView const& n) {
    auto mode = n.text("approximate", "none");
    if (mode != "none" && mode != "tanh")
        return invalid("approximate is \"", mode, "\", expected \"none\" or \"tanh\"");
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_gelu(LowerContext& c, NodeView const& n) {
    Expression e;
    auto op = n.text("approximate", "none") == "tanh" ? ExprOp::GeluTanh : ExprOp::GeluErf;
    c.emit_output(computation::make_operator(e.finish(e.unary(op, e.input(0, c.dtype(0))))), {c.edge(0)});
    return std::nullopt;
}

/// x * sigmoid(alpha * x)
Status lower_swish(LowerContext& c, NodeView const& n) {
    Expression e;
    auto x = e.input(0, c.dtype(0));
    auto alpha = n.number("alpha", 1);
    auto result = alpha == 1
                      ? e.unary(ExprOp::Silu, x)
                      : e.binary(ExprOp::Mul, x,
                                 e.unary(ExprOp::Sigmoid, e.binary(ExprOp::Mul, x, e.constant(c.dtype(0), alpha))));
    c.emit_output(computation::make_operator(e.finish(result)), {c.edge(0)});
    return std::nullopt;
}

}  // namespace

void define_unary(Definitions& all) {
    for (auto const& unary : kUnary) {
        OperatorDef def{.name = unary.name, .types = {{unary.types}}, .infer = infer_unary, .lower = lower_unary};
        for (auto const& parameter : {unary.alpha, unary.beta})
            if (!parameter.name.empty()) def.attributes.push_back({parameter.name, AttributeKind::Float});
        all.push_back(std::move(def));
    }
    all.push_back({.name = "IsInf",
                   .types = {{kFloats | kF8}},
                   .attributes = {{"detect_negative", AttributeKind::Int}, {"detect_positive", AttributeKind::Int}},
                   .infer = infer_is_inf,
                   .lower = lower_is_inf});
    all.push_back({.name = "Gelu",
                   .since = 20,
                   .types = {{kFloats}},
                   .attributes = {{"approximate", AttributeKind::String}},
                   .infer = infer_gelu,
                   .lower = lower_gelu});
    all.push_back({.name = "Swish",
                   .since = 24,
                   .types = {{kFloats}},
                   .attributes = {{"alpha", AttributeKind::Float}},
                   .infer = infer_same,
                   .lower = lower_swish});
}

}  // namespace refactor::onnx
