#include "common/half.h"
#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/reduce.h"
#include "mem_manager/blob.h"
#include "operator_def.h"

#include <cmath>

// BatchNormalization of all opsets. Whether statistics are those of the batch is an attribute (`is_test` until opset 6,
// `training_mode` since 14), between them it follows from the number of outputs.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::Expression;
using kernel::ExprOp;
using Edge = LowerContext::Edge;

bool is_spatial(NodeView const& n) { return n.opset >= 9 || n.integer("spatial", 1) != 0; }

bool is_training(NodeView const& n, size_t outputs) {
    if (n.opset < 7) return n.integer("is_test", 0) == 0;
    return n.opset < 14 ? outputs > 1 : n.integer("training_mode", 0) != 0;
}

/// Sizes of scale, bias, mean and variance as the model gives them: one for each channel, or for each activation.
Shape parameter_shape(Shape const& x, NodeView const& n) {
    return is_spatial(n) ? Shape{x[1]} : Shape(x.begin() + 1, x.end());
}

/// The same under numpy's rules.
Shape aligned_shape(Shape const& x, NodeView const& n) {
    auto shape = parameter_shape(x, n);
    shape.resize(x.size() - 1, DimExpr(1));
    return shape;
}

Status infer_batch_norm(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 2, 64));
    auto parameters = parameter_shape(c.shape(0), n);
    static constexpr std::string_view kRoles[]{"scale", "bias", "mean", "variance"};
    for (size_t i = 1; i < 5; ++i) {
        RG_CHECK_STATUS(frontend::expect_rank(c.input(i), parameters.size(), parameters.size()));
        for (size_t k = 0; k < parameters.size(); ++k)
            RG_CHECK_STATUS(c.expect_equal(c.shape(i)[k], parameters[k], kRoles[i - 1]));
    }
    bool training = is_training(n, c.output_count());
    if (training && c.shape(0)[0] == DimExpr(0)) return invalid("a batch of size 0 has no statistics");
    if (!training && n.opset >= 14 && c.output_count() > 1)
        return invalid("without training_mode there is one output, not ", c.output_count());
    RG_CHECK_STATUS(c.set(0, c.dtype(0), c.shape(0)));
    for (size_t i = 1; i < c.output_count(); ++i) RG_CHECK_STATUS(c.set(i, c.dtype(3), parameters));
    return std::nullopt;
}

/// Scale and shift as constants, computed in double; nothing unless all parameters are known and X is f32.
std::optional<std::pair<std::vector<float>, std::vector<float>>> folded_parameters(LowerContext& c, float epsilon) {
    if (c.dtype(0) != DataType::F32) return std::nullopt;
    std::vector<double> values[4];
    for (size_t i = 0; i < 4; ++i) {
        auto const& tensor = c.tensor(i + 1);
        auto count = element_count(*tensor.shape).constant();
        if (!tensor.constant || !count) return std::nullopt;
        values[i].resize(static_cast<size_t>(*count));
        if (!convert(tensor.dtype, tensor.constant->data(), DataType::F64, values[i].data(), *count))
            return std::nullopt;
    }
    std::vector<float> scales, shifts;
    for (size_t i = 0; i < values[0].size(); ++i) {
        auto scale = values[0][i] / std::sqrt(values[3][i] + epsilon);
        scales.push_back(static_cast<float>(scale));
        shifts.push_back(static_cast<float>(values[1][i] - values[2][i] * scale));
    }
    return std::pair{std::move(scales), std::move(shifts)};
}

/// (x - mean) / sqrt(variance + epsilon) * scale + bias, with the statistics in `type`; all edges are aligned.
Edge emit_normalized(LowerContext& c, Edge x, std::vector<Edge> const& scale_and_bias, Edge mean, Edge variance,
                     DataType type, float epsilon) {
    Expression e;
    auto in = [&](uint16_t i, DataType dtype) { return e.cast(e.input(i, dtype), type); };
    auto deviation =
        e.unary(ExprOp::Sqrt, e.binary(ExprOp::Add, in(4, variance->value.dtype), e.constant(type, epsilon)));
    auto normal =
        e.binary(ExprOp::Div, e.binary(ExprOp::Sub, in(0, x->value.dtype), in(3, mean->value.dtype)), deviation);
    auto scaled = e.binary(ExprOp::Mul, normal, in(1, scale_and_bias[0]->value.dtype));
    auto result = e.cast(e.binary(ExprOp::Add, scaled, in(2, scale_and_bias[1]->value.dtype)), c.dtype(0));
    return c.emit(computation::make_operator(e.finish(result)),
                  {x, scale_and_bias[0], scale_and_bias[1], mean, variance}, c.dtype(0), c.shape(0));
}

Status lower_inference(LowerContext& c, NodeView const& n, std::vector<Edge> const& parameters, Shape const& aligned) {
    auto epsilon = n.number("epsilon", 1e-5f);
    auto dtype = c.dtype(0);
    if (auto folded = folded_parameters(c, epsilon)) {
        Expression e;
        // Sizes of the constants: those of X may be symbols.
        Dims dims;
        for (auto const& size : c.shape(1)) dims.push_back(*size.constant());
        dims.resize(aligned.size(), 1);
        auto product = e.binary(ExprOp::Mul, e.input(0, dtype), e.input(1, dtype));
        c.emit_output(computation::make_operator(e.finish(e.binary(ExprOp::Add, product, e.input(2, dtype)))),
                      {c.edge(0), c.floats(folded->first, dims), c.floats(folded->second, dims)});
        return std::nullopt;
    }
    c.set_output(
        0, emit_normalized(c, c.edge(0), {parameters[0], parameters[1]}, parameters[2], parameters[3], dtype, epsilon));
    return std::nullopt;
}

/// old * momentum + fresh * (1 - momentum), in the type and shape of output `i`.
Edge emit_running(LowerContext& c, Edge old, Edge fresh, float momentum, size_t i) {
    auto type = fresh->value.dtype;
    Expression e;
    auto kept = e.binary(ExprOp::Mul, e.cast(e.input(0, old->value.dtype), type), e.constant(type, momentum));
    auto added = e.binary(ExprOp::Mul, e.input(1, type), e.constant(type, 1. - static_cast<double>(momentum)));
    auto result = e.cast(e.binary(ExprOp::Add, kept, added), c.output(i).dtype);
    auto const& shape = *c.output(i).shape;
    return c.emit(computation::make_operator(e.finish(result)), {old, c.reshape(fresh, shape)}, c.output(i).dtype,
                  shape);
}

/// Statistics of the batch in f32 (f64 for f64): mean, and mean of the squared distances from it.
Status lower_training(LowerContext& c, NodeView const& n, std::vector<Edge> const& parameters, Shape const& aligned) {
    auto const& x = c.shape(0);
    auto type = c.dtype(0) == DataType::F64 ? DataType::F64 : DataType::F32;
    auto* wide = c.cast(c.edge(0), type);
    Dims axes{0};
    for (size_t i = 2; is_spatial(n) && i < x.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    auto statistics = aligned;
    statistics.insert(statistics.begin(), DimExpr(1));
    auto average = [&](Edge edge) {
        return c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Mean, axes}), {edge}, type,
                      statistics);
    };
    auto* mean = average(wide);
    Expression e;
    auto distance = e.binary(ExprOp::Sub, e.input(0, type), e.input(1, type));
    auto* variance = average(
        c.emit(computation::make_operator(e.finish(e.binary(ExprOp::Mul, distance, distance))), {wide, mean}, type, x));
    c.set_output(
        0, emit_normalized(c, wide, {parameters[0], parameters[1]}, mean, variance, type, n.number("epsilon", 1e-5f)));
    auto momentum = n.number("momentum", 0.9f);
    for (size_t i = 1; i < c.output_count(); ++i) {
        auto* fresh = i % 2 ? mean : variance;
        if (i < 3)
            c.set_output(i, emit_running(c, c.edge(i + 2), fresh, momentum, i));
        else
            c.set_output(i, c.cast(c.reshape(fresh, *c.output(i).shape), c.output(i).dtype));
    }
    return std::nullopt;
}

Status lower_batch_norm(LowerContext& c, NodeView const& n) {
    auto aligned = aligned_shape(c.shape(0), n);
    std::vector<Edge> parameters;
    for (size_t i = 1; i < 5; ++i) parameters.push_back(c.reshape(c.edge(i), aligned));
    return is_training(n, c.output_count()) ? lower_training(c, n, parameters, aligned)
                                            : lower_inference(c, n, parameters, aligned);
}

}  // namespace

void define_batch_norm(Definitions& all) {
    using K = AttributeKind;
    OperatorDef def{
        .name = "BatchNormalization",
        .inputs = {5, 5},
        .outputs = {1, 5},
        .types = {{kFloats}},
        .attributes = {{"epsilon", K::Float}, {"momentum", K::Float}, {"spatial", K::Int}, {"is_test", K::Int}},
        .infer = infer_batch_norm,
        .lower = lower_batch_norm};
    all.push_back(def);
    def.since = 7, def.attributes.pop_back();
    all.push_back(def);
    def.since = 9, def.attributes.pop_back();
    all.push_back(def);
    def.since = 14, def.outputs = {1, 3}, def.attributes.push_back({"training_mode", K::Int});
    all.push_back(std::move(def));
}

}  // namespace refactor::onnx
