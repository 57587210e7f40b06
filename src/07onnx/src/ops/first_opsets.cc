#include "computation/operator.h"
#include "frontend/expression.h"
#include "operator_def.h"
#include "size_values.h"

#include <algorithm>

// Forms that only opsets 1 to 6 have: binary operators with the attributes `axis` and `broadcast` instead of numpy's
// rules, PRelu with one slope for each channel, Cast whose type is text.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

struct Aligned {
    std::string_view name;
    ExprOp op;
    TypeSet types;
};

constexpr TypeSet kOldFloats = types(DataType::F16, DataType::F32, DataType::F64);
constexpr Aligned kAligned[]{
    {"Add", ExprOp::Add, kNumbers},
    {"And", ExprOp::And, kBool},
    {"Div", ExprOp::Div, kNumbers},
    {"Equal", ExprOp::Equal, kBool | kIndices},
    {"Greater", ExprOp::Greater, kOldFloats},
    {"Less", ExprOp::Less, kOldFloats},
    {"Mul", ExprOp::Mul, kNumbers},
    {"Or", ExprOp::Or, kBool},
    {"Pow", ExprOp::Pow, kOldFloats},
    {"Sub", ExprOp::Sub, kNumbers},
    {"Xor", ExprOp::Xor, kBool},
};

Aligned const& find_aligned(std::string_view name) {
    return *std::find_if(std::begin(kAligned), std::end(kAligned), [&](auto const& a) { return a.name == name; });
}

/// The shape of B with ones behind it, so that its axis 0 meets axis `axis` of A under numpy's rules.
template <class Context>
Inferred<Shape> aligned_shape(Context const& c, NodeView const& n) {
    auto const& a = c.shape(0);
    auto b = c.shape(1);
    // -1 is what exporters write for "at the end", which is the default.
    if (n.integer("broadcast", 0) == 0 || n.integer("axis", -1) == -1) return b;
    RG_TRY(axis, frontend::normalize_axis(n.integer("axis", -1), a.size()));
    if (axis + b.size() > a.size())
        return Err{invalid("axis is ", axis, ": the ", b.size(), " axes of B do not fit into the ", a.size(), " of A")};
    b.resize(a.size() - axis, DimExpr(1));
    return b;
}

Status infer_aligned(InferContext& c, NodeView const& n) {
    auto const& a = c.shape(0);
    RG_TRY_STATUS(b, aligned_shape(c, n));
    auto op = find_aligned(n.op_type).op;
    bool broadcast = n.integer("broadcast", 0) != 0;
    auto differ = [&] {
        return invalid("A has the shape ", c.text(a), ", B ", c.text(c.shape(1)), ": ",
                       broadcast ? "B must be a part of A" : "without broadcast they must be equal");
    };
    // The functions that ONNX gives for operators of opset 1 add scalars without asking for a broadcast.
    broadcast = broadcast || b.empty();
    if (b.size() > a.size() || (!broadcast && b.size() != a.size())) return differ();
    if (c.expect_broadcast(b, a, "B")) return differ();
    if (!broadcast && frontend::expect_equal(element_count(b), element_count(a), "", c.symbols())) return differ();
    bool comparison = op == ExprOp::Equal || op == ExprOp::Greater || op == ExprOp::Less;
    RG_CHECK_STATUS(c.set(0, comparison ? DataType::Bool : c.dtype(0), a));
    if (b != c.shape(1)) return std::nullopt;
    if (auto values = elementwise_values(c, a, element_rule(n))) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status lower_aligned(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(b, aligned_shape(c, n));
    Expression e;
    auto result = e.binary(find_aligned(n.op_type).op, e.input(0, c.dtype(0)), e.input(1, c.dtype(1)));
    c.emit_output(computation::make_operator(e.finish(result)), {c.edge(0), c.reshape(c.edge(1), b)});
    return std::nullopt;
}

/// One slope for all elements, or one for each channel (axis 1).
Shape slope_shape(Shape const& x, Shape const& slope) {
    if (slope.size() != 1 || slope[0] == DimExpr(1) || x.size() < 3) return slope;
    Shape shape(x.size() - 1, DimExpr(1));
    shape[0] = slope[0];
    return shape;
}

Status infer_prelu(InferContext& c, NodeView const&) {
    auto const &x = c.shape(0), &slope = c.shape(1);
    if (c.expect_broadcast(slope_shape(x, slope), x, "the slope"))
        return invalid("the slope of shape ", c.text(slope), " is neither one value nor one for each channel");
    return c.set(0, c.dtype(0), x);
}

Status lower_prelu(LowerContext& c, NodeView const&) {
    Expression e;
    auto result = e.binary(ExprOp::PRelu, e.input(0, c.dtype(0)), e.input(1, c.dtype(1)));
    auto* slope = c.reshape(c.edge(1), slope_shape(c.shape(0), c.shape(1)));
    c.emit_output(computation::make_operator(e.finish(result)), {c.edge(0), slope});
    return std::nullopt;
}

struct TypeName {
    std::string_view text;
    DataType dtype;
};
/// Names of `TensorProto.DataType`, which Cast-1 wants.
constexpr TypeName kTypeNames[]{{"BOOL", DataType::Bool},   {"DOUBLE", DataType::F64}, {"FLOAT", DataType::F32},
                                {"FLOAT16", DataType::F16}, {"INT16", DataType::I16},  {"INT32", DataType::I32},
                                {"INT64", DataType::I64},   {"INT8", DataType::I8},    {"UINT16", DataType::U16},
                                {"UINT32", DataType::U32},  {"UINT64", DataType::U64}, {"UINT8", DataType::U8}};

Status infer_cast(InferContext& c, NodeView const& n) {
    auto text = n.text("to", "");
    auto* found =
        std::find_if(std::begin(kTypeNames), std::end(kTypeNames), [&](auto const& t) { return t.text == text; });
    if (found == std::end(kTypeNames)) return invalid("the target type \"", text, "\" does not exist");
    RG_CHECK_STATUS(c.set(0, found->dtype, c.shape(0)));
    bool number = is_float(found->dtype) || found->dtype == DataType::I64 || found->dtype == DataType::I32;
    auto values = c.input(0).constant ? std::nullopt : c.known_values(0);
    if (number && values) c.set_values(0, std::move(*values));
    return std::nullopt;
}

Status lower_cast(LowerContext& c, NodeView const&) {
    c.set_output(0, c.cast(c.edge(0), c.output().dtype));
    return std::nullopt;
}

}  // namespace

void define_first_opsets(Definitions& all) {
    using K = AttributeKind;
    for (auto const& aligned : kAligned)
        all.push_back({.name = aligned.name,
                       .inputs = {2, 2},
                       .types = {{aligned.types, 'T'}},
                       .attributes = {{"axis", K::Int}, {"broadcast", K::Int}},
                       .infer = infer_aligned,
                       .lower = lower_aligned});
    all.push_back(
        {.name = "PRelu", .inputs = {2, 2}, .types = {{kOldFloats, 'T'}}, .infer = infer_prelu, .lower = lower_prelu});
    all.push_back({.name = "Cast",
                   .types = {{kNumbers | kBool}},
                   .attributes = {{"to", K::String, true}},
                   .infer = infer_cast,
                   .lower = lower_cast});
}

}  // namespace refactor::onnx
