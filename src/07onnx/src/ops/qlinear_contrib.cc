#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "ops/matmul.h"
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

/// One value, or one for each of `columns`.
Status check_columns(InferContext& c, size_t input, DimExpr const& columns, std::string_view what) {
    if (!c.has(input) || is_one(c.shape(input))) return std::nullopt;
    RG_CHECK_STATUS(frontend::expect_rank(c.input(input), 1, 1));
    return frontend::expect_equal(c.shape(input)[0], columns, what, c.symbols());
}

LoweredEdge scalar(LowerContext& c, size_t i) { return c.has(i) ? c.reshape(c.edge(i), {}) : nullptr; }

/// x + bias in the type of x; broadcasts to x's shape.
LoweredEdge add_bias(LowerContext& c, LoweredEdge x, LoweredEdge bias) {
    if (!bias) return x;
    Expression e;
    auto type = x->value.dtype;
    auto shape = x->value.shape;
    return c.emit(computation::make_operator(e.finish(e.binary(ExprOp::Add, e.input(0, type), e.input(1, type)))),
                  {x, bias}, type, std::move(shape));
}

// Products.

/// Inputs of DynamicQuantizeMatMul and MatMulIntegerToFloat; 0: it has none.
struct FloatProduct {
    size_t a_scale, b_scale, a_zero, b_zero, bias;
};
constexpr FloatProduct kDynamic{0, 2, 0, 3, 4}, kToFloat{2, 3, 4, 5, 6};

Status infer_float_product(InferContext& c, FloatProduct const& p, DataType y) {
    RG_TRY_STATUS(product, product_of(c.shape(0), c.shape(1), c.symbols()));
    auto const& columns = product.b.back();
    if (p.a_scale) RG_CHECK_STATUS(check_scalar(c, p.a_scale, "the scale of A"));
    if (p.a_zero) RG_CHECK_STATUS(check_scalar(c, p.a_zero, "the zero point of A"));
    RG_CHECK_STATUS(check_columns(c, p.b_scale, columns, "the number of scales of B"));
    RG_CHECK_STATUS(check_columns(c, p.b_zero, columns, "the number of zero points of B"));
    if (c.has(p.bias)) {
        RG_CHECK_STATUS(frontend::expect_rank(c.input(p.bias), 1, 1));
        RG_CHECK_STATUS(frontend::expect_equal(c.shape(p.bias)[0], columns, "the size of the bias", c.symbols()));
    }
    return c.set(0, y, product.y);
}
Status infer_dynamic(InferContext& c, NodeView const&) { return infer_float_product(c, kDynamic, DataType::F32); }
Status infer_to_float(InferContext& c, NodeView const&) { return infer_float_product(c, kToFloat, c.dtype(2)); }

Status lower_float_product(LowerContext& c, FloatProduct const& p, LoweredEdge a, LoweredEdge a_scale,
                           LoweredEdge a_zero) {
    RG_TRY_STATUS(product, product_of(c.shape(0), c.shape(1), c.symbols()));
    IntegerOperands operands{c.reshape(a, product.a), c.reshape(c.edge(1), product.b), a_zero, c.edge(p.b_zero)};
    operands.scale = emit_scale(c, a_scale, c.edge(p.b_scale), nullptr);
    auto* y = emit_integer_product(c, operands, DataType::F32, product.full());
    if (c.has(p.bias)) y = add_bias(c, y, c.cast(c.edge(p.bias), DataType::F32));
    c.set_output(0, c.reshape(c.cast(y, c.output().dtype), product.y));
    return std::nullopt;
}
Status lower_dynamic(LowerContext& c, NodeView const&) {
    auto a = emit_dynamic_quantize(c, c.edge(0));
    return lower_float_product(c, kDynamic, a.y, a.scale, a.zero_point);
}
Status lower_to_float(LowerContext& c, NodeView const&) {
    return lower_float_product(c, kToFloat, c.edge(0), scalar(c, 2), c.edge(4));
}

/// Inputs of QGemm: A, its scale and zero point, B likewise, C, scale and zero point of Y.
Status infer_gemm(InferContext& c, NodeView const& n) {
    for (size_t i : {0, 3}) RG_CHECK_STATUS(frontend::expect_rank(c.input(i), 2, 2));
    bool ta = n.integer("transA", 0) != 0, tb = n.integer("transB", 0) != 0;
    auto const &a = c.shape(0), &b = c.shape(3);
    RG_CHECK_STATUS(frontend::expect_equal(b[tb], a[!ta], "the inner size of the second operand", c.symbols()));
    Shape y{a[ta], b[!tb]};
    for (size_t i : {1, 2, 7, 8}) RG_CHECK_STATUS(check_scalar(c, i, i == 1 || i == 7 ? "a scale" : "a zero point"));
    for (size_t i : {4, 5}) RG_CHECK_STATUS(check_columns(c, i, y[1], "the number of scales or zero points of B"));
    if (c.has(8) && !c.has(7)) return invalid("y_zero_point is given without y_scale");
    if (c.has(6)) {
        RG_TRY_STATUS(joined, frontend::broadcast_shapes({y, c.shape(6)}, c.symbols()));
        bool fits = joined.size() == 2;
        for (size_t i = 0; fits && i < 2; ++i) fits = !frontend::expect_equal(joined[i], y[i], "", c.symbols());
        if (!fits) return invalid("C of shape ", c.text(c.shape(6)), " cannot be broadcast to ", c.text(y));
    }
    return c.set(0, !c.has(7) ? DataType::F32 : c.has(8) ? c.dtype(8) : c.dtype(0), std::move(y));
}

Status lower_gemm(LowerContext& c, NodeView const& n) {
    auto matrix = [&](size_t i, char const* attribute) {
        return n.integer(attribute, 0) ? c.transpose(c.edge(i), {1, 0}) : c.edge(i);
    };
    IntegerOperands operands{matrix(0, "transA"), matrix(3, "transB"), c.edge(2), c.edge(5)};
    auto* a_scale = scalar(c, 1);
    if (auto alpha = n.number("alpha", 1); alpha != 1) {
        Expression e;
        auto scaled = e.binary(ExprOp::Mul, e.constant(DataType::F32, alpha), e.input(0, DataType::F32));
        a_scale = c.emit(computation::make_operator(e.finish(scaled)), {a_scale}, DataType::F32, {});
    }
    auto* scale = emit_scale(c, a_scale, c.edge(4), scalar(c, 7));
    auto y = c.output().dtype;
    auto const& shape = *c.output().shape;
    bool is_bias = c.has(6) && c.shape(6).size() == 1 && c.shape(6)[0] == shape[1];
    if (!c.has(6) || is_bias) {
        operands.bias = c.edge(6), operands.scale = scale, operands.y_zero = c.edge(8);
        c.set_output(0, emit_integer_product(c, operands, y, shape));
        return std::nullopt;
    }
    auto* sums = add_bias(c, emit_integer_product(c, operands, DataType::I32, shape), c.edge(6));
    if (y != DataType::F32) {
        c.set_output(0, emit_requantize(c, sums, scale, scalar(c, 8), y));
        return std::nullopt;
    }
    Expression e;
    auto value = e.binary(ExprOp::Mul, e.cast(e.input(0, DataType::I32), DataType::F32), e.input(1, DataType::F32));
    c.emit_output(computation::make_operator(e.finish(value)), {sums, scale});
    return std::nullopt;
}

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
    if (n.integer("channels_last", 0)) return unsupported("channels_last = 1");
    RG_CHECK_STATUS(check_quantised(c, 1));
    RG_TRY_STATUS(shape, pooled_shape(c, n));
    return c.set(0, c.dtype(0), shape);
}
Status lower_average_pool(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(pool, lower_pool_window(c, n));
    pool.info.kind = kernel::PoolKind::Average;
    pool.info.count_include_pad = n.integer("count_include_pad", 0) != 0;
    auto shape = *c.output().shape;
    auto* y = c.emit(computation::make_operator(std::move(pool.info), std::move(pool.params)), {dequantized(c, 0)},
                     DataType::F32, std::move(shape));
    quantize_output(c, y, 3);
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
            if (k != axis) RG_CHECK_STATUS(frontend::expect_equal(part[k], shape[k], "a size", c.symbols()));
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
    add({.name = "DynamicQuantizeMatMul",
         .inputs = {3, 5},
         .types = {{kF32}, {kBytes, 'B'}, {kF32}, {kBytes, 'B'}, {kF32}},
         .infer = infer_dynamic,
         .lower = lower_dynamic});
    constexpr TypeSet kScales = kF32 | types(DataType::F16);
    add({.name = "MatMulIntegerToFloat",
         .inputs = {4, 7},
         .types = {{kBytes, 'A'},
                   {kBytes, 'B'},
                   {kScales, 'S'},
                   {kScales, 'S'},
                   {kBytes, 'A'},
                   {kBytes, 'B'},
                   {kScales, 'S'}},
         .infer = infer_to_float,
         .lower = lower_to_float});
    add({.name = "QGemm",
         .inputs = {6, 9},
         .types = {{kBytes, 'A'},
                   {kF32},
                   {kBytes, 'A'},
                   {kBytes, 'B'},
                   {kF32},
                   {kBytes, 'B'},
                   {types(DataType::I32)},
                   {kF32},
                   {kBytes}},
         .attributes = {{"alpha", K::Float}, {"transA", K::Int}, {"transB", K::Int}},
         .infer = infer_gemm,
         .lower = lower_gemm});
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
