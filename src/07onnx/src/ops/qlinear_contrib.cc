#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "ops/qlinear.h"
#include "ops/quantize.h"
#include "ops/window.h"

// Quantised operators of com.microsoft: DynamicQuantizeMatMul, MatMulIntegerToFloat, QGemm, and the QLinear… ones,
// which compute on dequantised values and quantise the result.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

constexpr TypeSet kBytes = types(DataType::U8, DataType::I8);
constexpr TypeSet kF32 = types(DataType::F32);

Status check_scalar(InferContext& c, size_t input, std::string_view what) {
    if (!c.has(input) || is_one(c.shape(input))) return std::nullopt;
    return invalid(what, " has the shape ", c.text(c.shape(input)), ", expected a scalar");
}

LoweredEdge scalar(LowerContext& c, size_t i) { return c.has(i) ? c.reshape(c.edge(i), {}) : nullptr; }

// Operators on dequantised values. Inputs: x, scale and zero point for every operand, then scale and zero point of y.

Status check_quantised(InferContext& c, size_t operands) {
    for (size_t i = 0; i <= operands; ++i) {
        bool y = i == operands;
        auto scale = 3 * i + !y, zero = scale + 1;
        RG_CHECK_STATUS(check_scalar(c, scale, "a scale"));
        RG_CHECK_STATUS(check_scalar(c, zero, "a zero point"));
        if (c.has(zero) && c.dtype(zero) != c.dtype(y ? 0 : 3 * i))
            return invalid("input ", zero, " is ", name_of(c.dtype(zero)), ", expected ", name_of(c.dtype(0)));
    }
    return std::nullopt;
}

LoweredEdge dequantized(LowerContext& c, size_t i) {
    return emit_dequantize(c, c.edge(i), scalar(c, i + 1), scalar(c, i + 2));
}
/// Scale and zero point of y are inputs `i` and `i + 1`.
void quantize_output(LowerContext& c, LoweredEdge x, size_t i) {
    c.set_output(0, emit_quantize(c, x, scalar(c, i), scalar(c, i + 1), c.output().dtype));
}

Status infer_binary(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(check_quantised(c, 2));
    if (c.dtype(3) != c.dtype(0)) return invalid("B is ", name_of(c.dtype(3)), ", expected ", name_of(c.dtype(0)));
    RG_TRY_STATUS(shape, frontend::broadcast_shapes({c.shape(0), c.shape(3)}, c.symbols()));
    return c.set(0, c.dtype(0), shape);
}
Status lower_binary(LowerContext& c, NodeView const& n) {
    auto shape = *c.output().shape;
    Expression e;
    if (n.op_type == "QLinearAdd") {
        auto value = e.binary(ExprOp::Add, e.input(0, DataType::F32), e.input(1, DataType::F32));
        auto* y = c.emit(computation::make_operator(e.finish(value)), {dequantized(c, 0), dequantized(c, 3)},
                         DataType::F32, std::move(shape));
        quantize_output(c, y, 6);
        return std::nullopt;
    }
    // Products of integers are exact in f32, so that one scale for all rounds least.
    std::vector<LoweredEdge> edges;
    auto centred = [&](size_t i) {
        auto load = [&](LoweredEdge edge) {
            edges.push_back(edge);
            return e.cast(e.input(static_cast<uint16_t>(edges.size() - 1), edge->value.dtype), DataType::F32);
        };
        auto x = load(c.edge(i));
        return c.has(i + 2) ? e.binary(ExprOp::Sub, x, load(scalar(c, i + 2))) : x;
    };
    auto a = centred(0), b = centred(3);
    auto* product = c.emit(computation::make_operator(e.finish(e.binary(ExprOp::Mul, a, b))), edges, DataType::F32,
                           std::move(shape));
    auto* scale = emit_scale(c, scalar(c, 1), scalar(c, 4), scalar(c, 6));
    c.set_output(0, emit_requantize(c, product, scale, scalar(c, 7), c.output().dtype));
    return std::nullopt;
}

Status infer_unary(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(check_quantised(c, 1));
    return c.set(0, c.dtype(0), c.shape(0));
}
Status lower_unary(LowerContext& c, NodeView const& n) {
    Expression e;
    bool sigmoid = n.op_type == "QLinearSigmoid";
    auto value = e.unary(sigmoid ? ExprOp::Sigmoid : ExprOp::LeakyRelu, e.input(0, DataType::F32),
                         sigmoid ? 0 : n.number("alpha", 0.01f));
    auto shape = *c.output().shape;
    quantize_output(
        c, c.emit(computation::make_operator(e.finish(value)), {dequantized(c, 0)}, DataType::F32, std::move(shape)),
        3);
    return std::nullopt;
}

Status infer_softmax(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    return infer_unary(c, n);
}
Status lower_softmax(LowerContext& c, NodeView const& n) {
    auto rank = c.shape(0).size();
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), rank));
    kernel::SoftmaxInfo info{.axis = static_cast<int64_t>(axis)};
    if (n.integer("opset", 13) < 13) info.axes = static_cast<int64_t>(rank - axis);
    auto shape = *c.output().shape;
    quantize_output(c, c.emit(computation::make_operator(info), {dequantized(c, 0)}, DataType::F32, std::move(shape)),
                    3);
    return std::nullopt;
}

/// The spatial axes of [N, C, spatial…] or [N, spatial…, C].
std::vector<size_t> spatial_axes(NodeView const& n, size_t rank) {
    size_t begin = n.integer("channels_last", 0) ? 1 : 2;
    std::vector<size_t> axes;
    for (size_t i = begin; i < rank + begin - 2; ++i) axes.push_back(i);
    return axes;
}

Status infer_global_pool(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 3, 64));
    RG_CHECK_STATUS(check_quantised(c, 1));
    return c.set(0, c.dtype(0), frontend::without_axes(c.shape(0), spatial_axes(n, c.shape(0).size()), true));
}
Status lower_global_pool(LowerContext& c, NodeView const& n) {
    kernel::ReduceInfo info{kernel::ReduceKind::Mean, {}};
    for (auto axis : spatial_axes(n, c.shape(0).size())) info.axes.push_back(static_cast<int64_t>(axis));
    auto shape = *c.output().shape;
    quantize_output(
        c, c.emit(computation::make_operator(std::move(info)), {dequantized(c, 0)}, DataType::F32, std::move(shape)),
        3);
    return std::nullopt;
}

Status infer_average_pool(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 3, 64));
    RG_CHECK_STATUS(check_quantised(c, 1));
    bool last = n.integer("channels_last", 0) != 0;
    RG_TRY_STATUS(shape, pooled_shape(c, n, last ? channels_first(c.shape(0)) : c.shape(0)));
    return c.set(0, c.dtype(0), last ? channels_last(shape) : shape);
}
Status lower_average_pool(LowerContext& c, NodeView const& n) {
    bool last = n.integer("channels_last", 0) != 0;
    RG_TRY_STATUS(pool, lower_pool_window(n, last ? channels_first(c.shape(0)) : c.shape(0)));
    pool.info.kind = kernel::PoolKind::Average;
    pool.info.count_include_pad = n.integer("count_include_pad", 0) != 0;
    auto shape = *c.output().shape;
    auto* x = dequantized(c, 0);
    auto* y = c.emit(computation::make_operator(std::move(pool.info), std::move(pool.params)),
                     {last ? channels_first(c, x) : x}, DataType::F32, last ? channels_first(std::move(shape)) : shape);
    quantize_output(c, last ? channels_last(c, y) : y, 3);
    return std::nullopt;
}

/// Inputs of QLinearConcat: scale and zero point of y, then x, scale and zero point of every part.
Status infer_concat(InferContext& c, NodeView const& n) {
    if (c.input_count() < 5 || (c.input_count() - 2) % 3)
        return invalid(c.input_count(), " inputs, expected 2 and 3 for every part");
    auto shape = c.shape(2);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), shape.size()));
    for (size_t i = 0; i < c.input_count(); ++i) {
        bool data = i >= 2 && (i - 2) % 3 == 0, scale = i < 2 ? i == 0 : (i - 2) % 3 == 1;
        if (!c.has(i)) return invalid("input ", i, " is missing");
        if (scale ? c.dtype(i) != DataType::F32 : !(kBytes >> static_cast<int>(c.dtype(i)) & 1))
            return invalid("input ", i, " is ", name_of(c.dtype(i)), ", expected ", scale ? "f32" : "u8 or i8");
        if (!data) RG_CHECK_STATUS(check_scalar(c, i, scale ? "a scale" : "a zero point"));
        if (i < 5 || !data) continue;
        auto const& part = c.shape(i);
        if (part.size() != shape.size())
            return invalid("input ", i, " has ", part.size(), " axes, expected ", shape.size());
        for (size_t k = 0; k < part.size(); ++k)
            if (k != axis) RG_CHECK_STATUS(c.expect_equal(part[k], shape[k], "a size"));
        shape[axis] = shape[axis] + part[axis];
    }
    return c.set(0, c.dtype(1), std::move(shape));
}
Status lower_concat(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", 0), c.shape(2).size()));
    std::vector<LoweredEdge> parts;
    for (size_t i = 2; i < c.input_count(); i += 3)
        parts.push_back(emit_quantize(c, dequantized(c, i), scalar(c, 0), scalar(c, 1), c.output().dtype));
    c.emit_output(computation::make_operator(kernel::ConcatInfo{static_cast<int64_t>(axis)}), parts);
    return std::nullopt;
}

}  // namespace

void define_qlinear_contrib(Definitions& all) {
    using K = AttributeKind;
    constexpr std::string_view kDomain = "com.microsoft";
    std::vector<InputDef> const one{{kBytes}, {kF32}, {kBytes}, {kF32}, {kBytes}};
    std::vector<InputDef> const two{{kBytes}, {kF32}, {kBytes}, {kBytes}, {kF32}, {kBytes}, {kF32}, {kBytes}};
    auto add = [&](OperatorDef def) {
        def.domain = kDomain;
        all.push_back(std::move(def));
    };
    for (auto name : {"QLinearAdd", "QLinearMul"})
        add({.name = name, .inputs = {7, 8}, .types = two, .infer = infer_binary, .lower = lower_binary});
    add({.name = "QLinearSigmoid", .inputs = {4, 5}, .types = one, .infer = infer_unary, .lower = lower_unary});
    add({.name = "QLinearLeakyRelu",
         .inputs = {4, 5},
         .types = one,
         .attributes = {{"alpha", K::Float}},
         .infer = infer_unary,
         .lower = lower_unary});
    add({.name = "QLinearSoftmax",
         .inputs = {5, 5},
         .types = one,
         .attributes = {{"axis", K::Int}, {"opset", K::Int, true}},
         .infer = infer_softmax,
         .lower = lower_softmax});
    add({.name = "QLinearGlobalAveragePool",
         .inputs = {5, 5},
         .types = one,
         .attributes = {{"channels_last", K::Int}},
         .infer = infer_global_pool,
         .lower = lower_global_pool});
    add({.name = "QLinearAveragePool",
         .inputs = {4, 5},
         .types = one,
         .attributes = {{"auto_pad", K::String},
                        {"ceil_mode", K::Int},
                        {"channels_last", K::Int},
                        {"count_include_pad", K::Int},
                        {"kernel_shape", K::Ints, true},
                        {"pads", K::Ints},
                        {"strides", K::Ints}},
         .infer = infer_average_pool,
         .lower = lower_average_pool});
    add({.name = "QLinearConcat",
         .inputs = {5, kVariadic},
         .attributes = {{"axis", K::Int, true}},
         .infer = infer_concat,
         .lower = lower_concat});
}

}  // namespace refactor::onnx
