#include "ops/quantize.h"

#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/quantize.h"
#include "kernel/ops/reduce.h"
#include "operator_def.h"

#include <algorithm>

// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear, of ONNX and of com.microsoft.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

constexpr TypeSet kF8 = types(DataType::F8E4M3FN, DataType::F8E4M3FNUZ, DataType::F8E5M2, DataType::F8E5M2FNUZ);
constexpr TypeSet kBytes = types(DataType::U8, DataType::I8);
constexpr TypeSet kSmall19 = kBytes | kF8;
constexpr TypeSet kSmall21 = kSmall19 | types(DataType::I16, DataType::U16, DataType::I4, DataType::U4);
constexpr TypeSet kSmall23 = kSmall21 | types(DataType::F4E2M1);
constexpr TypeSet kSmall25 = kSmall23 | types(DataType::I2, DataType::U2);
constexpr TypeSet kHalves = types(DataType::F32, DataType::F16, DataType::BF16);
constexpr TypeSet kI32 = types(DataType::I32);

bool is_microsoft(NodeView const& n) { return n.opset < 10; }

/// What may be the quantised type in an opset.
TypeSet quantised_types(NodeView const& n) {
    if (is_microsoft(n) || n.opset >= 25) return kSmall25;
    return n.opset >= 23 ? kSmall23 : n.opset >= 21 ? kSmall21 : n.opset >= 19 ? kSmall19 : kBytes;
}

/// Which scale belongs to which element; checks the shapes of scale (input 1) and zero point (input 2).
Inferred<kernel::Granularity> granularity_of(InferContext& c, NodeView const& n) {
    auto const &x = c.shape(0), &scale = c.shape(1);
    kernel::Granularity result;
    result.block = n.integer("block_size", 0);
    if (result.block < 0) return Err{invalid("block_size is ", result.block, ", expected at least 0")};
    if (is_one(scale) && result.block == 0) return result;
    if (n.opset >= 10 && n.opset < 13)
        return Err{invalid("the scale has ", scale.size(), " axes, expected a scalar in opset ", n.opset)};
    // An axis that does not matter may be out of range.
    RG_TRY(axis, frontend::normalize_axis(n.integer("axis", 1), x.size()));
    result.axis = static_cast<int64_t>(axis);
    auto wanted = result.block ? x : Shape{x[axis]};
    if (result.block) wanted[axis] = ceil_div(x[axis], result.block);
    if (scale.size() != wanted.size())
        return Err{invalid("the scale has ", scale.size(), " axes, expected ", wanted.size())};
    // One value for all stays one where only the run tells how many there are.
    if (auto problem = result.block ? std::nullopt : c.expect_broadcast(scale, wanted, "the scale"))
        return Err{*problem};
    for (size_t i = 0; result.block && i < wanted.size(); ++i)
        if (auto problem = c.expect_equal(scale[i], wanted[i], "a size of the scale")) return Err{*problem};
    return result;
}

Status check_zero_point(InferContext& c) {
    if (!c.has(2)) return std::nullopt;
    auto const &scale = c.shape(1), &zero = c.shape(2);
    if (is_one(scale) && is_one(zero)) return std::nullopt;
    bool fits = zero.size() == scale.size();
    for (size_t i = 0; fits && i < zero.size(); ++i)
        fits = !c.expect_equal(zero[i], scale[i], "a size of the zero point");
    if (!fits)
        return invalid("the zero point has the shape ", c.text(zero), ", expected that of the scale, ", c.text(scale));
    return std::nullopt;
}

/// A type given by an attribute; 0 stands for none.
Inferred<std::optional<DataType>> type_attribute(NodeView const& n, std::string_view name, TypeSet allowed) {
    auto code = n.integer(name, 0);
    if (code == 0) return std::optional<DataType>();
    if (code == 27 || code == 28) return Err{unsupported(name, " is a 6-bit float")};
    auto dtype = data_type_from_onnx(code);
    if (!dtype || !(allowed >> static_cast<int>(*dtype) & 1))
        return Err{invalid(name, " is ", dtype ? std::string(name_of(*dtype)) : std::to_string(code),
                           ", which the operator does not allow in opset ", n.opset)};
    return dtype;
}

Status infer_quantize(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(granularity, granularity_of(c, n));
    RG_CHECK_STATUS(check_zero_point(c));
    RG_TRY_STATUS(wanted, type_attribute(n, "output_dtype", quantised_types(n)));
    RG_TRY_STATUS(precision, type_attribute(n, "precision", kHalves));
    auto to = c.has(2) ? c.dtype(2) : wanted.value_or(DataType::U8);
    if (wanted && to != *wanted)
        return invalid("output_dtype is ", name_of(*wanted), ", the zero point is ", name_of(to));
    return c.set(0, to, c.shape(0));
}

Status lower_quantize(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(granularity, granularity_of(view, n));
    RG_TRY_STATUS(precision, type_attribute(n, "precision", kHalves));
    kernel::QuantizeInfo info{granularity};
    // Without the attribute, the wider of both operands.
    bool alike = c.dtype(0) == c.dtype(1) && c.dtype(0) != DataType::I32;
    info.precision = precision.value_or(alike ? c.dtype(0) : DataType::F32);
    if (bits_of(c.output().dtype) == 8 && is_float(c.output().dtype)) info.saturate = n.integer("saturate", 1) != 0;
    c.emit_output(computation::make_operator(info), {c.edge(0), c.edge(1), c.edge(2)});
    return std::nullopt;
}

Status infer_dequantize(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(granularity, granularity_of(c, n));
    RG_CHECK_STATUS(check_zero_point(c));
    RG_TRY_STATUS(wanted, type_attribute(n, "output_dtype", kHalves));
    auto to = wanted.value_or(c.dtype(1));
    if (to == DataType::F8E8M0) return invalid("a scale of ", name_of(to), " needs the attribute output_dtype");
    if (c.has(2) && c.dtype(2) != c.dtype(0))
        return invalid("the zero point is ", name_of(c.dtype(2)), ", expected ", name_of(c.dtype(0)), " as x");
    return c.set(0, to, c.shape(0));
}

Status lower_dequantize(LowerContext& c, NodeView const& n) {
    auto view = c.view();
    RG_TRY_STATUS(granularity, granularity_of(view, n));
    c.emit_output(computation::make_operator(kernel::DequantizeInfo{granularity}), {c.edge(0), c.edge(1), c.edge(2)});
    return std::nullopt;
}

Status infer_dynamic(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(c.set(0, DataType::U8, c.shape(0)));
    RG_CHECK_STATUS(c.set(1, DataType::F32, {}));
    return c.set(2, DataType::U8, {});
}

Status lower_dynamic(LowerContext& c, NodeView const&) {
    auto result = emit_dynamic_quantize(c, c.edge(0));
    c.set_output(0, result.y);
    if (c.output_count() > 1) c.set_output(1, result.scale);
    if (c.output_count() > 2) c.set_output(2, result.zero_point);
    return std::nullopt;
}

/// The smallest or largest element of x, widened to include zero.
LowerContext::Edge emit_bound(LowerContext& c, LowerContext::Edge x, kernel::ReduceKind kind) {
    auto* bound = x;
    if (!x->value.shape.empty()) {
        kernel::ReduceInfo info{kind, {}};
        for (size_t i = 0; i < x->value.shape.size(); ++i) info.axes.push_back(static_cast<int64_t>(i));
        bound = c.emit(computation::make_operator(std::move(info)), {x}, DataType::F32, {});
    }
    Expression e;
    auto op = kind == kernel::ReduceKind::Min ? ExprOp::Min : ExprOp::Max;
    auto result = e.binary(op, e.input(0, DataType::F32), e.constant(DataType::F32, 0));
    return c.emit(computation::make_operator(e.finish(result)), {bound}, DataType::F32, {});
}

}  // namespace

bool is_one(Shape const& shape) { return shape.empty() || (shape.size() == 1 && shape[0] == DimExpr(1)); }

DynamicallyQuantised emit_dynamic_quantize(LowerContext& c, LowerContext::Edge x) {
    auto *low = emit_bound(c, x, kernel::ReduceKind::Min), *high = emit_bound(c, x, kernel::ReduceKind::Max);
    Expression e;
    auto one = e.constant(DataType::F32, 1), steps = e.constant(DataType::F32, 255);
    auto range = e.binary(ExprOp::Sub, e.input(0, DataType::F32), e.input(1, DataType::F32));
    auto empty = e.binary(ExprOp::Equal, range, e.constant(DataType::F32, 0));
    auto* scale =
        c.emit(computation::make_operator(e.finish(e.binary(ExprOp::Div, e.select(empty, one, range), steps))),
               {high, low}, DataType::F32, {});
    Expression z;
    auto zero = z.constant(DataType::F32, 0), most = z.constant(DataType::F32, 255);
    auto shift =
        z.binary(ExprOp::Sub, zero, z.binary(ExprOp::Div, z.input(0, DataType::F32), z.input(1, DataType::F32)));
    auto rounded = z.unary(ExprOp::Round, z.clip(shift, zero, most));
    auto* zero_point =
        c.emit(computation::make_operator(z.finish(z.cast(rounded, DataType::U8))), {low, scale}, DataType::U8, {});
    return {emit_quantize(c, x, scale, zero_point, DataType::U8), scale, zero_point};
}

LowerContext::Edge emit_dequantize(LowerContext& c, LowerContext::Edge x, LowerContext::Edge scale,
                                   LowerContext::Edge zero_point, int64_t axis) {
    auto shape = x->value.shape;
    return c.emit(computation::make_operator(kernel::DequantizeInfo{{.axis = axis}}), {x, scale, zero_point},
                  DataType::F32, std::move(shape));
}

LowerContext::Edge emit_quantize(LowerContext& c, LowerContext::Edge x, LowerContext::Edge scale,
                                 LowerContext::Edge zero_point, DataType to) {
    auto shape = x->value.shape;
    return c.emit(computation::make_operator(kernel::QuantizeInfo{}), {x, scale, zero_point}, to, std::move(shape));
}

void define_quantize(Definitions& all) {
    using K = AttributeKind;
    OperatorDef quantize{.name = "QuantizeLinear",
                         .since = 10,
                         .inputs = {2, 3},
                         .types = {{types(DataType::F32, DataType::I32)}, {types(DataType::F32)}, {kBytes}},
                         .infer = infer_quantize,
                         .lower = lower_quantize};
    OperatorDef dequantize{.name = "DequantizeLinear",
                           .since = 10,
                           .inputs = {2, 3},
                           .types = {{kBytes | kI32}, {types(DataType::F32)}, {kBytes | kI32}},
                           .infer = infer_dequantize,
                           .lower = lower_dequantize};
    auto add = [&](int64_t since, TypeSet small, TypeSet scale) {
        quantize.since = dequantize.since = since;
        if (since >= 19) quantize.types = {{kHalves | kI32}, {scale | kI32}, {small}};
        if (since >= 19) dequantize.types = {{small | kI32}, {scale}, {small | kI32}};
        all.push_back(quantize), all.push_back(dequantize);
    };
    add(10, kBytes, 0);
    quantize.attributes = {{"axis", K::Int}}, dequantize.attributes = {{"axis", K::Int}};
    add(13, kBytes, 0);
    quantize.attributes.push_back({"saturate", K::Int});
    add(19, kSmall19, kHalves);
    quantize.attributes.push_back({"block_size", K::Int}), dequantize.attributes.push_back({"block_size", K::Int});
    quantize.attributes.push_back({"output_dtype", K::Int});
    add(21, kSmall21, kHalves);
    quantize.attributes.push_back({"precision", K::Int}), dequantize.attributes.push_back({"output_dtype", K::Int});
    add(23, kSmall23, kHalves);
    add(24, kSmall23, kHalves | types(DataType::F8E8M0));
    add(25, kSmall25, kHalves | types(DataType::F8E8M0));
    quantize.domain = dequantize.domain = "com.microsoft";
    add(1, kSmall25, kHalves);
    all.push_back({.name = "DynamicQuantizeLinear",
                   .since = 11,
                   .outputs = {1, 3},
                   .types = {{types(DataType::F32)}},
                   .infer = infer_dynamic,
                   .lower = lower_dynamic});
}

}  // namespace refactor::onnx
