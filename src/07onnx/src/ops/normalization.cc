#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "operator_def.h"
#include "statistics.h"

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;
using Edge = LowerContext::Edge;

bool is_rms(NodeView const& n) { return n.op_type == "RMSNormalization"; }

Status infer_layer_norm(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    auto const& x = c.shape(0);
    for (size_t i = 1; i < c.input_count(); ++i) {
        if (!c.has(i)) continue;
        RG_CHECK_STATUS(c.expect_broadcast(c.shape(i), x, i == 1 ? "scale" : "bias"));
    }
    RG_CHECK_STATUS(c.set(0, is_rms(n) ? c.dtype(1) : c.dtype(0), x));
    auto statistics = x;
    for (auto i = axis; i < x.size(); ++i) statistics[i] = 1;
    for (size_t i = 1; i < 3; ++i) RG_CHECK_STATUS(c.set(i, DataType::F32, statistics));
    return std::nullopt;
}

/// Whether a parameter has values for the normalised axes only, as the kernel wants.
bool is_inner(Shape const& parameter, size_t normalized) {
    for (size_t i = 0; i + normalized < parameter.size(); ++i)
        if (parameter[i] != DimExpr(1)) return false;
    return true;
}

/// Scale or bias in the shape of the normalised axes.
Edge full_parameter(LowerContext& c, Edge edge, Shape const& normalized) {
    auto shape = edge->value.shape;
    if (shape.size() > normalized.size())
        edge =
            c.reshape(edge, shape = Shape(shape.end() - static_cast<std::ptrdiff_t>(normalized.size()), shape.end()));
    if (shape == normalized) return edge;
    return c.emit(computation::make_operator(kernel::ExpandInfo{}), {edge}, edge->value.dtype, normalized);
}

}  // namespace

Statistics emit_statistics(LowerContext& c, Edge x, size_t axis, float epsilon, bool rms) {
    Dims axes;
    auto full = x->value.shape, shape = full;
    for (auto i = axis; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i)), shape[i] = 1;
    auto average = [&](Edge edge) {
        return c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Mean, axes}), {edge},
                      DataType::F32, shape);
    };
    x = c.cast(x, DataType::F32);
    auto* mean = rms ? c.emit(computation::make_operator(kernel::ExpandInfo{}), {c.scalar(DataType::F32, 0)},
                              DataType::F32, shape)
                     : average(x);
    Expression e, r;
    auto distance = e.input(0, DataType::F32);
    std::vector<Edge> edges{x};
    if (!rms) distance = e.binary(ExprOp::Sub, distance, e.input(1, DataType::F32)), edges.push_back(mean);
    auto* variance = average(c.emit(computation::make_operator(e.finish(e.binary(ExprOp::Mul, distance, distance))),
                                    edges, DataType::F32, full));
    auto shifted = r.binary(ExprOp::Add, r.input(0, DataType::F32), r.constant(DataType::F32, epsilon));
    auto inverse = r.binary(ExprOp::Div, r.constant(DataType::F32, 1), r.unary(ExprOp::Sqrt, shifted));
    return {mean, c.emit(computation::make_operator(r.finish(inverse)), {variance}, DataType::F32, shape)};
}

namespace {

/// Scale and bias that vary along other axes too: applied behind a normalisation without them.
Edge emit_scaled(LowerContext& c, Edge normal, DataType type) {
    Expression e;
    std::vector<Edge> edges{normal, c.edge(1)};
    auto result = e.binary(ExprOp::Mul, e.input(0, type), e.cast(e.input(1, c.dtype(1)), type));
    if (c.has(2)) {
        result = e.binary(ExprOp::Add, result, e.cast(e.input(2, c.dtype(2)), type));
        edges.push_back(c.edge(2));
    }
    return c.emit(computation::make_operator(e.finish(result)), edges, type, c.shape(0));
}

Status lower_layer_norm(LowerContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), x.size()));
    Shape normalized(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
    kernel::LayerNormInfo info;
    info.axis = static_cast<int64_t>(axis), info.epsilon = n.number("epsilon", 1e-5f), info.rms = is_rms(n);
    // Scale, and with it the result, may have another type than X.
    bool mixed = c.dtype(0) != c.dtype(1);
    auto type = !mixed                                                       ? c.dtype(0)
                : c.dtype(0) == DataType::F64 || c.dtype(1) == DataType::F64 ? DataType::F64
                                                                             : DataType::F32;
    auto* data = c.cast(c.edge(0), type);
    bool inner = is_inner(c.shape(1), normalized.size()) && (!c.has(2) || is_inner(c.shape(2), normalized.size()));
    Edge result;
    if (inner) {
        info.has_bias = c.has(2);
        std::vector<Edge> edges{data, full_parameter(c, c.cast(c.edge(1), type), normalized)};
        if (c.has(2)) edges.push_back(full_parameter(c, c.cast(c.edge(2), type), normalized));
        result = c.emit(computation::make_operator(info), edges, type, x);
    } else {
        auto* one = c.reshape(c.scalar(type, 1), Shape(normalized.size(), DimExpr(1)));
        auto* normal = c.emit(computation::make_operator(info), {data, full_parameter(c, one, normalized)}, type, x);
        result = emit_scaled(c, normal, type);
    }
    c.set_output(0, c.cast(result, c.output().dtype));
    if (c.output_count() > 1) {
        auto statistics = emit_statistics(c, c.edge(0), axis, info.epsilon);
        c.set_output(1, statistics.mean);
        if (c.output_count() > 2) c.set_output(2, statistics.inverse);
    }
    return std::nullopt;
}

Status check_channels(InferContext& c, DimExpr const& expected) {
    for (size_t i = 1; i < 3; ++i) {
        RG_CHECK_STATUS(expect_rank(c.input(i), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(i)[0], expected, i == 1 ? "the size of scale" : "the size of bias"));
    }
    return std::nullopt;
}

Status infer_instance_norm(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 3, 64));
    RG_CHECK_STATUS(check_channels(c, c.shape(0)[1]));
    return c.set(0, c.dtype(0), c.shape(0));
}

Status infer_group_norm(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 3, 64));
    auto groups = n.integer("num_groups", 0);
    auto const& channels = c.shape(0)[1];
    if (groups < 1) return invalid("num_groups is ", groups, ", expected at least 1");
    if (auto number = channels.constant(); number && *number % groups)
        return invalid(*number, " channels are not divisible by num_groups ", groups);
    // Until opset 21 scale and bias had one value for each group.
    RG_CHECK_STATUS(check_channels(c, n.opset < 21 ? DimExpr(groups) : channels));
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_group_norm(LowerContext& c, NodeView const& n) {
    kernel::GroupNormInfo info;
    info.groups = n.integer("num_groups", 0), info.epsilon = n.number("epsilon", 1e-5f);
    std::vector<LowerContext::Edge> edges{c.edge(0), c.edge(1), c.edge(2)};
    if (info.groups && n.opset < 21) {
        auto const& channels = c.shape(0)[1];
        Shape pairs{DimExpr(info.groups), floor_div(channels, info.groups)};
        for (size_t i = 1; i < 3; ++i) {
            auto* column = c.reshape(c.edge(i), {DimExpr(info.groups), DimExpr(1)});
            auto* spread = c.emit(computation::make_operator(kernel::ExpandInfo{}), {column}, c.dtype(i), pairs);
            edges[i] = c.reshape(spread, {channels});
        }
    }
    c.emit_output(computation::make_operator(info), edges);
    return std::nullopt;
}

}  // namespace

void define_normalization(Definitions& all) {
    using K = AttributeKind;
    // It came with opset 17, but onnxruntime's optimizer writes it into models of any opset.
    all.push_back({.name = "LayerNormalization",
                   .inputs = {2, 3},
                   .outputs = {1, 3},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"axis", K::Int}, {"epsilon", K::Float}, {"stash_type", K::Int}},
                   .infer = infer_layer_norm,
                   .lower = lower_layer_norm});
    all.push_back({.name = "RMSNormalization",
                   .since = 23,
                   .inputs = {2, 2},
                   .types = {{kFloats}},
                   .attributes = {{"axis", K::Int}, {"epsilon", K::Float}, {"stash_type", K::Int}},
                   .infer = infer_layer_norm,
                   .lower = lower_layer_norm});
    all.push_back({.name = "InstanceNormalization",
                   .inputs = {3, 3},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"epsilon", K::Float}},
                   .infer = infer_instance_norm,
                   .lower = lower_group_norm});
    all.push_back({.name = "GroupNormalization",
                   .since = 18,
                   .inputs = {3, 3},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"epsilon", K::Float}, {"num_groups", K::Int, true}, {"stash_type", K::Int}},
                   .infer = infer_group_norm,
                   .lower = lower_group_norm});
}

}  // namespace refactor::onnx
