#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "operator_def.h"

// Operators that were experimental in ONNX 1.0 to 1.4 and that models converted from Core ML and Caffe2 still have:
// Affine, Crop, ImageScaler, ParametricSoftplus, Scale, ScaledTanh. MeanVarianceNormalization, with other attributes,
// became a function in opset 9. None of them exists in opsets from 10 on.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using Value = Expression::Value;

Status lower_affine(LowerContext& c, NodeView const& n) {
    Expression e;
    auto type = c.dtype(0);
    auto x = e.input(0, type), alpha = e.constant(type, n.number("alpha", 1)),
         beta = e.constant(type, n.number("beta", n.op_type == "Affine" ? 0 : 1));
    Value result;
    if (n.op_type == "Affine")
        result = e.binary(ExprOp::Add, e.binary(ExprOp::Mul, x, alpha), beta);
    else if (n.op_type == "Scale")
        result = e.binary(ExprOp::Mul, x, e.constant(type, n.number("scale", 1)));
    else
        result = e.binary(
            ExprOp::Mul, alpha,
            e.unary(n.op_type == "ScaledTanh" ? ExprOp::Tanh : ExprOp::Softplus, e.binary(ExprOp::Mul, beta, x)));
    c.emit_output(computation::make_operator(e.finish(result)), {c.edge(0)});
    return std::nullopt;
}

std::vector<float> bias_of(NodeView const& n) {
    auto* bias = n.get<std::vector<float>>("bias");
    return bias ? *bias : std::vector<float>{};
}

Status infer_image_scaler(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 4, 4));
    auto count = static_cast<int64_t>(bias_of(n).size());
    RG_CHECK_STATUS(c.expect_equal(count, c.shape(0)[1], "the number of entries of bias"));
    return c.set(0, c.dtype(0), c.shape(0));
}

/// x * scale + bias of the channel
Status lower_image_scaler(LowerContext& c, NodeView const& n) {
    Expression e;
    auto type = c.dtype(0);
    auto scaled = e.binary(ExprOp::Mul, e.input(0, type), e.constant(type, n.number("scale", 1)));
    auto bias = bias_of(n);
    auto* edge = c.cast(c.floats(bias, {static_cast<int64_t>(bias.size()), 1, 1}), type);
    c.emit_output(computation::make_operator(e.finish(e.binary(ExprOp::Add, scaled, e.input(1, type)))),
                  {c.edge(0), edge});
    return std::nullopt;
}

/// border: elements to cut off at the left, top, right and bottom; or, with scale (rows, columns), what to keep behind
/// left and top.
Status infer_crop(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 4, 4));
    auto border = n.integers("border"), scale = n.integers("scale");
    if (border.size() != 4 || (n.has("scale") && scale.size() != 2))
        return invalid("border and scale have ", border.size(), " and ", scale.size(), " entries, expected 4 and 2");
    auto shape = c.shape(0);
    for (size_t i = 0; i < 2; ++i) {
        auto begin = border[1 - i], end = border[3 - i];
        auto room = shape[i + 2] - begin, kept = n.has("scale") ? DimExpr(scale[i]) : room - end;
        if (begin < 0 || end < 0 || kept.constant().value_or(0) < 0 || (room - kept).constant().value_or(0) < 0)
            return invalid("a crop by ", begin, " and ", end, " of ", c.text(shape[i + 2]), " elements on axis ",
                           i + 2);
        shape[i + 2] = kept;
    }
    return c.set(0, c.dtype(0), std::move(shape));
}

Status lower_crop(LowerContext& c, NodeView const& n) {
    auto border = n.integers("border");
    c.emit_output(computation::make_operator(kernel::SliceInfo{{1, 1, 1, 1}}, {0, 0, border[1], border[0]}),
                  {c.edge(0)});
    return std::nullopt;
}

Status infer_mean_variance(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 4, 4));
    return c.set(0, c.dtype(0), c.shape(0));
}

/// (x - mean) / sqrt(variance), over the batch and the positions, and the channels if `across_channels`.
Status lower_mean_variance(LowerContext& c, NodeView const& n) {
    auto type = c.dtype(0) == DataType::F64 ? DataType::F64 : DataType::F32;
    Dims axes{0, 2, 3};
    auto shape = c.shape(0);
    if (n.integer("across_channels", 0) != 0) axes = {0, 1, 2, 3}, shape[1] = 1;
    shape[0] = shape[2] = shape[3] = 1;
    auto average = [&](LowerContext::Edge edge) {
        return c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Mean, axes}), {edge}, type,
                      shape);
    };
    auto* x = c.cast(c.edge(0), type);
    auto* mean = average(x);
    Expression distance, e;
    auto d = distance.binary(ExprOp::Sub, distance.input(0, type), distance.input(1, type));
    std::vector<LowerContext::Edge> edges{x, mean};
    auto result = e.binary(ExprOp::Sub, e.input(0, type), e.input(1, type));
    if (n.integer("normalize_variance", 1) != 0) {
        auto squares = computation::make_operator(distance.finish(distance.binary(ExprOp::Mul, d, d)));
        edges.push_back(average(c.emit(squares, {x, mean}, type, c.shape(0))));
        result = e.binary(ExprOp::Div, result, e.unary(ExprOp::Sqrt, e.input(2, type)));
    }
    c.emit_output(computation::make_operator(e.finish(e.cast(result, c.dtype(0)))), edges);
    return std::nullopt;
}

}  // namespace

void define_experimental(Definitions& all) {
    using K = AttributeKind;
    constexpr TypeSet kOldFloats = types(DataType::F16, DataType::F32, DataType::F64);
    for (auto name : {"Affine", "ParametricSoftplus", "ScaledTanh"})
        all.push_back({.name = name,
                       .types = {{kOldFloats}},
                       .attributes = {{"alpha", K::Float}, {"beta", K::Float}},
                       .infer = infer_same,
                       .lower = lower_affine});
    all.push_back({.name = "Scale",
                   .types = {{kOldFloats}},
                   .attributes = {{"scale", K::Float}},
                   .infer = infer_same,
                   .lower = lower_affine});
    all.push_back({.name = "ImageScaler",
                   .types = {{kOldFloats}},
                   .attributes = {{"bias", K::Floats, true}, {"scale", K::Float}},
                   .infer = infer_image_scaler,
                   .lower = lower_image_scaler});
    all.push_back({.name = "Crop",
                   .types = {{kOldFloats}},
                   .attributes = {{"border", K::Ints, true}, {"scale", K::Ints}},
                   .infer = infer_crop,
                   .lower = lower_crop});
    all.push_back({.name = "MeanVarianceNormalization",
                   .types = {{kOldFloats}},
                   .attributes = {{"across_channels", K::Int}, {"normalize_variance", K::Int}},
                   .infer = infer_mean_variance,
                   .lower = lower_mean_variance});
    all.push_back({.name = "MeanVarianceNormalization", .since = 9});
    for (auto name : {"Affine", "ParametricSoftplus", "ScaledTanh", "Scale", "ImageScaler", "Crop"})
        all.push_back({.name = name, .since = 10});
}

}  // namespace refactor::onnx
