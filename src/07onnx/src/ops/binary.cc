#include "computation/operator.h"
#include "frontend/expression.h"
#include "frontend/recorded.h"
#include "operator_def.h"
#include "size_values.h"

#include <algorithm>

// Elementwise operators that broadcast two or more inputs.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

struct Binary {
    std::string_view name;
    ExprOp op;
    TypeSet types;
    bool variadic = false;
};

constexpr Binary kBinary[]{
    {"Add", ExprOp::Add, kNumbers},
    {"And", ExprOp::And, kBool},
    {"BitwiseAnd", ExprOp::BitAnd, kIntegers},
    {"BitwiseOr", ExprOp::BitOr, kIntegers},
    {"BitwiseXor", ExprOp::BitXor, kIntegers},
    {"Div", ExprOp::Div, kNumbers},
    {"Equal", ExprOp::Equal, kNumbers | kBool},
    {"Greater", ExprOp::Greater, kNumbers},
    {"GreaterOrEqual", ExprOp::GreaterEqual, kNumbers},
    {"Less", ExprOp::Less, kNumbers},
    {"LessOrEqual", ExprOp::LessEqual, kNumbers},
    {"Max", ExprOp::Max, kNumbers, true},
    {"Min", ExprOp::Min, kNumbers, true},
    {"Mul", ExprOp::Mul, kNumbers},
    {"Or", ExprOp::Or, kBool},
    {"PRelu", ExprOp::PRelu, kNumbers},
    {"Sub", ExprOp::Sub, kNumbers},
    {"Sum", ExprOp::Add, kFloats, true},
    {"Xor", ExprOp::Xor, kBool},
};

Binary const& find_binary(std::string_view name) {
    return *std::find_if(std::begin(kBinary), std::end(kBinary), [&](Binary const& b) { return b.name == name; });
}

/// Whether opsets 1 to 6 had another form of the operator.
bool has_first_form(Binary const& b) {
    constexpr std::string_view kNew[]{"BitwiseAnd", "BitwiseOr", "BitwiseXor", "GreaterOrEqual", "LessOrEqual"};
    return !b.variadic && std::find(std::begin(kNew), std::end(kNew), b.name) == std::end(kNew);
}

bool is_comparison(ExprOp op) { return op >= ExprOp::Equal && op <= ExprOp::GreaterEqual; }

Inferred<Shape> common_shape(InferContext& c) {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < c.input_count(); ++i) shapes.push_back(c.shape(i));
    return frontend::broadcast_shapes(shapes, c.symbols());
}

Status infer_broadcast(InferContext& c, NodeView const& n, DataType dtype) {
    RG_TRY_STATUS(shape, common_shape(c));
    RG_CHECK_STATUS(c.set(0, dtype, shape));
    if (auto values = elementwise_values(c, shape, element_rule(n))) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status infer_binary(InferContext& c, NodeView const& n) {
    auto op = find_binary(n.op_type).op;
    return infer_broadcast(c, n, is_comparison(op) ? DataType::Bool : c.dtype(0));
}

void emit_fold(LowerContext& c, ExprOp op, bool mean) {
    Expression e;
    std::vector<LowerContext::Edge> edges;
    auto result = e.input(0, c.dtype(0));
    edges.push_back(c.edge(0));
    for (size_t i = 1; i < c.input_count(); ++i) {
        result = e.binary(op, result, e.input(static_cast<uint16_t>(i), c.dtype(i)));
        edges.push_back(c.edge(i));
    }
    auto count = static_cast<double>(c.input_count());
    if (mean) result = e.binary(ExprOp::Div, result, e.constant(c.dtype(0), count));
    c.emit_output(computation::make_operator(e.finish(result)), edges);
}

Status lower_binary(LowerContext& c, NodeView const& n) {
    if (c.input_count() == 1)
        c.set_output(0, c.edge(0));
    else
        emit_fold(c, find_binary(n.op_type).op, false);
    return std::nullopt;
}

bool is_text(frontend::ProcedureContext const& p, NodeView const&) { return p.dtype(0) == DataType::String; }

Inferred<frontend::ProcedurePtr> text_equal(frontend::ProcedureContext const&, NodeView const&) {
    return frontend::record<kernel::make_text_equal>();
}

Status infer_mean(InferContext& c, NodeView const& n) { return infer_broadcast(c, n, c.dtype(0)); }

Status lower_mean(LowerContext& c, NodeView const&) {
    emit_fold(c, ExprOp::Add, true);
    return std::nullopt;
}

Status infer_prelu(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(c.expect_broadcast(c.shape(1), c.shape(0), "the slope"));
    return c.set(0, c.dtype(0), c.shape(0));
}

/// The exponent may have another type: the result has that of the base.
Status lower_pow(LowerContext& c, NodeView const&) {
    Expression e;
    auto x = e.input(0, c.dtype(0)), y = e.input(1, c.dtype(1));
    Expression::Value result;
    if (c.dtype(0) == c.dtype(1)) {
        result = e.binary(ExprOp::Pow, x, y);
    } else if (is_float(c.dtype(0))) {
        result = e.binary(ExprOp::Pow, x, e.cast(y, c.dtype(0)));
    } else {
        auto wide = is_float(c.dtype(1)) ? c.dtype(1) : DataType::I64;
        result = e.cast(e.binary(ExprOp::Pow, e.cast(x, wide), e.cast(y, wide)), c.dtype(0));
    }
    c.emit_output(computation::make_operator(e.finish(result)), {c.edge(0), c.edge(1)});
    return std::nullopt;
}

Status infer_pow(InferContext& c, NodeView const& n) { return infer_broadcast(c, n, c.dtype(0)); }

/// Floats need `fmod` before opset 28, says the text; `onnx.reference` and the test data of ONNX 1.5 take the sign of
/// the divisor without it, as opset 28 does for all.
Status infer_mod(InferContext& c, NodeView const& n) {
    auto fmod = n.integer("fmod", 0);
    if (fmod != 0 && fmod != 1) return invalid("fmod is ", fmod, ", expected 0 or 1");
    return infer_broadcast(c, n, c.dtype(0));
}

Status lower_mod(LowerContext& c, NodeView const& n) {
    emit_fold(c, n.integer("fmod", 0) ? ExprOp::Fmod : ExprOp::Mod, false);
    return std::nullopt;
}

Status infer_shift(InferContext& c, NodeView const& n) {
    auto direction = n.text("direction", "");
    if (direction != "LEFT" && direction != "RIGHT")
        return invalid("direction is \"", direction, "\", expected \"LEFT\" or \"RIGHT\"");
    return infer_broadcast(c, n, c.dtype(0));
}

Status lower_shift(LowerContext& c, NodeView const& n) {
    emit_fold(c, n.text("direction", "") == "LEFT" ? ExprOp::ShiftLeft : ExprOp::ShiftRight, false);
    return std::nullopt;
}

Status infer_where(InferContext& c, NodeView const& n) { return infer_broadcast(c, n, c.dtype(1)); }

Status lower_where(LowerContext& c, NodeView const&) {
    Expression e;
    auto condition = e.input(0, DataType::Bool);
    auto result = e.select(condition, e.input(1, c.dtype(1)), e.input(2, c.dtype(2)));
    c.emit_output(computation::make_operator(e.finish(result)), {c.edge(0), c.edge(1), c.edge(2)});
    return std::nullopt;
}

}  // namespace

void define_binary(Definitions& all) {
    for (auto const& binary : kBinary) {
        OperatorDef def{.name = binary.name,
                        .inputs = {2, 2},
                        .types = {{binary.types, 'T'}},
                        .infer = infer_binary,
                        .lower = lower_binary};
        if (binary.variadic) def.inputs = {1, kVariadic};
        if (binary.op == ExprOp::PRelu) def.infer = infer_prelu;
        // Before, operands were aligned by attributes.
        if (has_first_form(binary)) def.since = 7;
        all.push_back(def);
        if (binary.op != ExprOp::Equal) continue;
        def.since = 19, def.types[0].types |= types(DataType::String);
        def.procedure = text_equal, def.is_procedure = is_text;
        all.push_back(std::move(def));
    }
    all.push_back({.name = "Mean",
                   .inputs = {1, kVariadic},
                   .types = {{kFloats, 'T'}},
                   .infer = infer_mean,
                   .lower = lower_mean});
    all.push_back(
        {.name = "Pow", .since = 7, .inputs = {2, 2}, .types = {{kNumbers}}, .infer = infer_pow, .lower = lower_pow});
    all.push_back({.name = "Mod",
                   .since = 10,
                   .inputs = {2, 2},
                   .types = {{kNumbers, 'T'}},
                   .attributes = {{"fmod", AttributeKind::Int}},
                   .infer = infer_mod,
                   .lower = lower_mod});
    all.push_back({.name = "BitShift",
                   .since = 11,
                   .inputs = {2, 2},
                   .types = {{kUnsigned, 'T'}},
                   .attributes = {{"direction", AttributeKind::String, true}},
                   .infer = infer_shift,
                   .lower = lower_shift});
    all.push_back({.name = "BitShift",
                   .since = 28,
                   .inputs = {2, 2},
                   .types = {{kIntegers, 'T'}},
                   .attributes = {{"direction", AttributeKind::String, true}},
                   .infer = infer_shift,
                   .lower = lower_shift});
    all.push_back({.name = "Where",
                   .since = 9,
                   .inputs = {3, 3},
                   .types = {{kBool}, {kAny, 'T'}, {kAny, 'T'}},
                   .infer = infer_where,
                   .lower = lower_where});
}

}  // namespace refactor::onnx
