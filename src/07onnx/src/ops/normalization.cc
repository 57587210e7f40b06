#include "common/half.h"
#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "mem_manager/blob.h"
#include "operator_def.h"

#include <cmath>

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;

bool is_rms(NodeView const& n) { return n.op_type == "RMSNormalization"; }

Status infer_layer_norm(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    auto const& x = c.shape(0);
    Shape normalized(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
    for (size_t i = 1; i < c.input_count(); ++i) {
        if (!c.has(i)) continue;
        RG_TRY_STATUS(joined, frontend::broadcast_shapes({normalized, c.shape(i)}, c.symbols()));
        if (joined.size() != normalized.size())
            return unsupported("scale or bias of shape ", c.text(c.shape(i)), " for normalised axes ",
                               c.text(normalized));
        for (size_t k = 0; k < joined.size(); ++k)
            RG_CHECK_STATUS(expect_equal(joined[k], normalized[k], "the size of scale or bias", c.symbols()));
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0), x));
    auto statistics = x;
    for (auto i = axis; i < x.size(); ++i) statistics[i] = 1;
    for (size_t i = 1; i < 3; ++i) RG_CHECK_STATUS(c.set(i, DataType::F32, statistics));
    return std::nullopt;
}

/// Scale and bias in the shape of the normalised axes, which the kernel wants.
LowerContext::Edge full_parameter(LowerContext& c, size_t i, Shape const& normalized) {
    auto* edge = c.edge(i);
    if (edge->value.shape == normalized) return edge;
    return c.emit(computation::make_operator(kernel::ExpandInfo{}), {edge}, c.dtype(i), normalized);
}

Status lower_layer_norm(LowerContext& c, NodeView const& n) {
    if (c.output_count() > 1) return unsupported("the outputs Mean and InvStdDev");
    auto const& x = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), x.size()));
    Shape normalized(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
    kernel::LayerNormInfo info;
    info.axis = static_cast<int64_t>(axis), info.epsilon = n.number("epsilon", 1e-5f), info.rms = is_rms(n);
    info.has_bias = c.has(2);
    std::vector<LowerContext::Edge> edges{c.edge(0), full_parameter(c, 1, normalized)};
    if (c.has(2)) edges.push_back(full_parameter(c, 2, normalized));
    c.emit_output(computation::make_operator(info), edges);
    return std::nullopt;
}

Status check_channels(InferContext& c, DimExpr const& expected) {
    for (size_t i = 1; i < 3; ++i) {
        RG_CHECK_STATUS(expect_rank(c.input(i), 1, 1));
        RG_CHECK_STATUS(
            expect_equal(c.shape(i)[0], expected, i == 1 ? "the size of scale" : "the size of bias", c.symbols()));
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
    all.push_back({.name = "LayerNormalization",
                   .since = 17,
                   .inputs = {2, 3},
                   .outputs = {1, 3},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"axis", K::Int}, {"epsilon", K::Float}, {"stash_type", K::Int}},
                   .infer = infer_layer_norm,
                   .lower = lower_layer_norm});
    all.push_back({.name = "RMSNormalization",
                   .since = 23,
                   .inputs = {2, 2},
                   .types = {{kFloats, 'T'}},
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
