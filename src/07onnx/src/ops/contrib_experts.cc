#include "computation/operator.h"
#include "contrib_parts.h"
#include "experts_attributes.h"
#include "frontend/expression.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

#include <cmath>

// MoE and QMoE of com.microsoft: mixtures of experts, as products of routed rows, activations and a weighted sum.
// Source: onnxruntime, docs/ContribOperators.md.

namespace refactor::onnx {

namespace {

using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;
using Value = Expression::Value;

Status check_shape(InferContext& c, Layer const& layer, size_t input, std::string_view what, Shape const& wanted) {
    if (!c.has(input)) return std::nullopt;
    auto const& shape = c.shape(input);
    if (shape.size() != wanted.size())
        return invalid(layer.inputs.name, ": ", what, " of ", shape.size(), " axes, expected ", wanted.size());
    for (size_t i = 0; i < shape.size(); ++i)
        RG_CHECK_STATUS(c.expect_equal(shape[i], wanted[i],
                                       frontend::concat("size ", i, " of the ", what, " of ", layer.inputs.name)));
    return std::nullopt;
}

Status check_layer(InferContext& c, Layer const& layer, int64_t experts, int64_t n, int64_t k) {
    auto const& inputs = layer.inputs;
    auto width = layer.bits ? k * layer.bits / 8 : k;
    RG_CHECK_STATUS(check_shape(c, layer, inputs.weights, "weights", {experts, n, width}));
    RG_CHECK_STATUS(check_shape(c, layer, inputs.bias, "bias", {experts, n}));
    if (!layer.bits) return std::nullopt;
    auto bytes = [&](int64_t numbers) { return (numbers * layer.bits + 7) / 8; };
    auto blocks = k / layer.block;
    if (layer.by_columns) {
        RG_CHECK_STATUS(check_shape(c, layer, inputs.scales, "scales", {experts, n}));
        return check_shape(c, layer, inputs.zeros, "zero points", {experts, bytes(n)});
    }
    RG_CHECK_STATUS(check_shape(c, layer, inputs.scales, "scales", {experts, n, blocks}));
    return check_shape(c, layer, inputs.zeros, "zero points", {experts, n, bytes(blocks)});
}

/// Rows of the input and of the router.
DimExpr tokens_of(Shape const& x) {
    DimExpr tokens = 1;
    for (size_t i = 0; i + 1 < x.size(); ++i) tokens = tokens * x[i];
    return tokens;
}

Status infer_experts(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(expect_rank(c.input(0), 2, 3));
    RG_TRY_STATUS(x, experts_of(c, n));
    auto const& shape = c.shape(0);
    bool fused = x.gate == Gate::Interleaved || x.gate == Gate::Halves;
    if (fused && x.up.n % 2) return invalid("FC1: ", x.up.n, " columns, expected pairs for swiglu");
    auto inner = fused ? x.up.n / 2 : x.up.n;
    RG_CHECK_STATUS(c.expect_equal(shape.back(), x.up.k, "the last size of the input"));
    RG_CHECK_STATUS(check_layer(c, x.up, x.count, x.up.n, x.up.k));
    RG_CHECK_STATUS(check_layer(c, x.down, x.count, x.up.k, inner));
    if (x.gate == Gate::Third) RG_CHECK_STATUS(check_layer(c, x.third, x.count, inner, x.up.k));
    for (size_t i : {size_t{1}, kRouterWeights}) {
        if (!c.has(i)) continue;
        RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
        RG_CHECK_STATUS(c.expect_equal(c.shape(i)[0], tokens_of(shape), frontend::concat("the rows of input ", i)));
        RG_CHECK_STATUS(c.expect_equal(c.shape(i)[1], x.count, frontend::concat("the width of input ", i)));
    }
    return c.set(0, c.dtype(0), shape);
}

// ---------------------------------------------------------------------- routing
struct Routes {
    Edge experts, weights;  ///< i64 and f32 [tokens, chosen]
};

Edge emit(LowerContext& c, Expression& e, Value y, std::vector<Edge> const& inputs, DataType dtype, Shape shape) {
    return c.emit(computation::make_operator(e.finish(y)), inputs, dtype, std::move(shape));
}

Edge sum_of(LowerContext& c, Edge x, size_t axis) {
    auto shape = x->value.shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    return c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Sum, {static_cast<int64_t>(axis)}}),
                  {x}, DataType::F32, std::move(shape));
}

/// Weights over their sums.
Edge normalize(LowerContext& c, Edge weights) {
    auto const& shape = weights->value.shape;
    Expression e;
    auto y = e.binary(ExprOp::Div, e.input(0, DataType::F32), e.input(1, DataType::F32));
    auto* sum = c.reshape(sum_of(c, weights, 1), {shape[0], DimExpr(1)});
    return emit(c, e, y, {weights, sum}, DataType::F32, shape);
}

/// SparseMixer at inference: an expert counts by its share among those whose scores are within 2 % of its own, for the
/// second one without the first. Source: Liu et al., "Sparse Backpropagation for MoE Training" (arXiv 2310.00811), and
/// GRIN (arXiv 2409.12136), with a jitter of 0.01.
Edge mix_sparsely(LowerContext& c, Edge scores, Edge best, Edge experts) {
    auto const& shape = scores->value.shape;
    auto* numbers = emit_range(c, 0, shape[1]);
    Edge weights[2];
    for (size_t i : {0, 1}) {
        Expression e;
        auto s = e.input(0, DataType::F32), top = e.input(1, DataType::F32);
        auto far =
            e.binary(ExprOp::Div, e.binary(ExprOp::Sub, top, s), e.binary(ExprOp::Max, e.unary(ExprOp::Abs, s), top));
        auto counts = e.binary(ExprOp::LessEqual, far, e.constant(DataType::F32, 0.02));
        std::vector<Edge> inputs{scores, emit_slice(c, best, 1, DimExpr(static_cast<int64_t>(i)), DimExpr(1))};
        if (i) {
            auto first = e.binary(ExprOp::Equal, e.input(2, DataType::I64), e.input(3, DataType::I64));
            counts = e.binary(ExprOp::And, counts, e.unary(ExprOp::Not, first));
            inputs.insert(inputs.end(), {numbers, emit_slice(c, experts, 1, DimExpr(0), DimExpr(1))});
        }
        auto share =
            e.select(counts, e.unary(ExprOp::Exp, e.binary(ExprOp::Sub, s, top)), e.constant(DataType::F32, 0));
        auto* sum = sum_of(c, emit(c, e, share, inputs, DataType::F32, shape), 1);
        Expression inverse;
        auto y = inverse.unary(ExprOp::Reciprocal, inverse.input(0, DataType::F32));
        weights[i] = c.reshape(emit(c, inverse, y, {sum}, DataType::F32, {shape[0]}), {shape[0], DimExpr(1)});
    }
    return c.emit(computation::make_operator(kernel::ConcatInfo{1}), {weights[0], weights[1]}, DataType::F32,
                  {shape[0], DimExpr(2)});
}

Routes route(LowerContext& c, Experts const& x) {
    auto* scores = c.cast(c.edge(1), DataType::F32);
    auto const& all = scores->value.shape;
    Shape const chosen{all[0], DimExpr(x.chosen)};
    auto softmax = [&](Edge edge) {
        return c.emit(computation::make_operator(kernel::SoftmaxInfo{.axis = 1}), {edge}, DataType::F32,
                      edge->value.shape);
    };
    bool of_all = !x.normalized && !x.sparse_mixer && !c.has(kRouterWeights);
    if (of_all) scores = softmax(scores);
    kernel::TopKInfo info;
    info.axis = 1;
    auto top =
        c.emit_all(computation::make_operator(info), {scores}, {{DataType::F32, chosen}, {DataType::I64, chosen}});
    if (of_all) return {top[1], top[0]};
    if (x.sparse_mixer) {
        auto* weights = mix_sparsely(c, scores, top[0], top[1]);
        return {top[1], x.normalized ? normalize(c, weights) : weights};
    }
    if (!c.has(kRouterWeights)) return {top[1], softmax(top[0])};
    auto* weights = c.emit(computation::make_operator(kernel::GatherElementsInfo{1}),
                           {c.cast(c.edge(kRouterWeights), DataType::F32), top[1]}, DataType::F32, chosen);
    return {top[1], x.normalized ? normalize(c, weights) : weights};
}

// ---------------------------------------------------------------------- layers
/// Zero points [E, n] packed along n, as f32 [E, n].
Edge unpack_zeros(LowerContext& c, Edge zeros, Layer const& layer) {
    auto const& packed = zeros->value.shape;
    auto per_byte = 8 / layer.bits;
    auto* x = c.reshape(zeros, {packed[0], packed[1], DimExpr(1)});
    std::vector<Edge> parts;
    for (int part = 0; part < per_byte; ++part) {
        Expression e;
        auto shifted =
            e.binary(ExprOp::ShiftRight, e.input(0, DataType::U8), e.constant(DataType::U8, part * layer.bits));
        auto y = e.binary(ExprOp::BitAnd, shifted, e.constant(DataType::U8, (1 << layer.bits) - 1));
        parts.push_back(emit(c, e, y, {x}, DataType::U8, x->value.shape));
    }
    if (per_byte > 1)
        x = c.emit(computation::make_operator(kernel::ConcatInfo{2}), parts, DataType::U8,
                   {packed[0], packed[1], DimExpr(per_byte)});
    x = c.reshape(x, {packed[0], packed[1] * per_byte});
    return c.cast(emit_slice(c, x, 1, DimExpr(0), DimExpr(layer.n)), DataType::F32);
}

Edge emit_packed(LowerContext& c, Experts const& x, Layer const& layer, Edge rows, Edge experts, Shape const& result) {
    auto const& inputs = layer.inputs;
    kernel::GatherBlockMatMulInfo info;
    info.matrices = x.count, info.product.n = layer.n, info.product.k = layer.k;
    info.product.bits = layer.bits, info.product.block = layer.block, info.product.may_round = x.may_round;
    auto wide = [&](size_t i) -> Edge { return c.has(i) ? c.cast(c.edge(i), DataType::F32) : nullptr; };
    auto* scales = wide(inputs.scales);
    Edge zeros = c.has(inputs.zeros) ? c.edge(inputs.zeros) : nullptr;
    if (layer.by_columns) {
        Shape const blocks{DimExpr(x.count), DimExpr(layer.n), DimExpr(layer.k / layer.block)};
        auto repeat = [&](Edge edge) {
            return c.emit(computation::make_operator(kernel::ExpandInfo{}),
                          {c.reshape(edge, {blocks[0], blocks[1], DimExpr(1)})}, DataType::F32, blocks);
        };
        scales = repeat(scales);
        if (zeros) zeros = repeat(unpack_zeros(c, zeros, layer));
    }
    return c.emit(computation::make_operator(info),
                  {rows, c.edge(inputs.weights), scales, zeros, experts, wide(inputs.bias)}, DataType::F32, result);
}

/// Rows times the matrices of their experts: [tokens, chosen, n].
Edge emit_layer(LowerContext& c, Experts const& x, Layer const& layer, Edge rows, Edge experts) {
    auto result = experts->value.shape;
    result.push_back(layer.n);
    if (layer.bits) return emit_packed(c, x, layer, rows, experts, result);
    std::vector<Edge> inputs{rows, c.cast(c.edge(layer.inputs.weights), DataType::F32), experts};
    if (c.has(layer.inputs.bias)) inputs.push_back(c.cast(c.edge(layer.inputs.bias), DataType::F32));
    return c.emit(computation::make_operator(kernel::GatherMatMulInfo{.trans_w = true}), inputs, DataType::F32, result);
}

/// act(a), or act(a) · b of gated units.
Edge activate(LowerContext& c, Experts const& x, Edge a, Edge b) {
    Expression e;
    auto number = [&](float value) { return e.constant(DataType::F32, static_cast<double>(value)); };
    auto y = e.input(0, DataType::F32);
    std::vector<Edge> inputs{a};
    if (x.activation == "swiglu") {
        bool limited = std::isfinite(x.limit);
        if (limited) y = e.binary(ExprOp::Min, y, number(x.limit));
        y = x.alpha == 1
                ? e.unary(ExprOp::Silu, y)
                : e.binary(ExprOp::Mul, y, e.unary(ExprOp::Sigmoid, e.binary(ExprOp::Mul, y, number(x.alpha))));
        auto linear = e.input(1, DataType::F32);
        if (limited) linear = e.binary(ExprOp::Max, e.binary(ExprOp::Min, linear, number(x.limit)), number(-x.limit));
        if (x.beta != 0) linear = e.binary(ExprOp::Add, linear, number(x.beta));
        y = e.binary(ExprOp::Mul, y, linear), inputs.push_back(b);
        return emit(c, e, y, inputs, DataType::F32, a->value.shape);
    }
    if (x.activation == "relu") y = e.unary(ExprOp::Relu, y);
    if (x.activation == "gelu") y = e.unary(ExprOp::GeluTanh, y);
    if (x.activation == "silu") y = e.unary(ExprOp::Silu, y);
    if (!b && x.activation == "identity") return a;
    if (b) y = e.binary(ExprOp::Mul, y, e.input(1, DataType::F32)), inputs.push_back(b);
    return emit(c, e, y, inputs, DataType::F32, a->value.shape);
}

Status lower_experts(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(x, experts_of(c.view(), n));
    auto const tokens = tokens_of(c.shape(0));
    auto* rows = c.reshape(c.cast(c.edge(0), DataType::F32), {tokens, DimExpr(x.up.k)});
    auto routes = route(c, x);
    auto* up = emit_layer(c, x, x.up, rows, routes.experts);
    Edge linear = nullptr;
    if (auto inner = DimExpr(x.up.n / 2); x.gate == Gate::Interleaved) {
        linear = emit_slice(c, up, 2, DimExpr(1), inner, 2), up = emit_slice(c, up, 2, DimExpr(0), inner, 2);
    } else if (x.gate == Gate::Halves) {
        linear = emit_slice(c, up, 2, inner, inner), up = emit_slice(c, up, 2, DimExpr(0), inner);
    } else if (x.gate == Gate::Third) {
        linear = emit_layer(c, x, x.third, rows, routes.experts);
    }
    auto* down = emit_layer(c, x, x.down, activate(c, x, up, linear), routes.experts);
    Expression e;
    auto weighted = e.binary(ExprOp::Mul, e.input(0, DataType::F32), e.input(1, DataType::F32));
    auto* weights = c.reshape(routes.weights, {tokens, DimExpr(x.chosen), DimExpr(1)});
    auto* y = sum_of(c, emit(c, e, weighted, {down, weights}, DataType::F32, down->value.shape), 1);
    c.set_output(0, c.cast(c.reshape(y, c.shape(0)), c.dtype(0)));
    return std::nullopt;
}

}  // namespace

void define_contrib_experts(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kTypes = types(DataType::F32, DataType::F16, DataType::BF16);
    std::vector<AttributeDef> attributes{{"activation_alpha", K::Float},
                                         {"activation_beta", K::Float},
                                         {"activation_type", K::String},
                                         {"k", K::Int},
                                         {"normalize_routing_weights", K::Int},
                                         {"swiglu_fusion", K::Int},
                                         {"swiglu_limit", K::Float},
                                         {"use_sparse_mixer", K::Int}};
    all.push_back({.name = "MoE",
                   .inputs = {3, 8},
                   .types = {{kTypes, 'T'}},
                   .attributes = attributes,
                   .infer = infer_experts,
                   .lower = lower_experts,
                   .domain = kContribDomain});
    for (auto name : {"accuracy_level", "block_size", "expert_weight_bits", "fc1_expert_weight_bits",
                      "fc2_expert_weight_bits", "fc3_expert_weight_bits", "weights_prepacked"})
        attributes.push_back({name, K::Int});
    attributes.push_back({"quant_type", K::String});
    InputDef const t{kTypes, 'T'}, scales{kTypes}, bytes{types(DataType::U8)}, any{};
    all.push_back({.name = "QMoE",
                   .inputs = {3, 21},
                   .types = {t, t, bytes, scales, t, bytes, scales, t, bytes, scales, t, bytes, bytes, bytes, t, any},
                   .attributes = attributes,
                   .infer = infer_experts,
                   .lower = lower_experts,
                   .domain = kContribDomain});
}

}  // namespace refactor::onnx
