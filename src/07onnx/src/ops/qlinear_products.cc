#include "computation/operator.h"
#include "frontend/expression.h"
#include "ops/matmul.h"
#include "ops/qlinear.h"
#include "ops/quantize.h"

// Products of quantised matrices of com.microsoft: DynamicQuantizeMatMul, MatMulIntegerToFloat, QGemm.

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

/// One value, or one for each of `columns`.
Status check_columns(InferContext& c, size_t input, DimExpr const& columns, std::string_view what) {
    if (!c.has(input) || is_one(c.shape(input))) return std::nullopt;
    RG_CHECK_STATUS(frontend::expect_rank(c.input(input), 1, 1));
    return c.expect_equal(c.shape(input)[0], columns, what);
}

/// x + bias in the type of x; broadcasts to x's shape.
LoweredEdge add_bias(LowerContext& c, LoweredEdge x, LoweredEdge bias) {
    if (!bias) return x;
    Expression e;
    auto type = x->value.dtype;
    auto shape = x->value.shape;
    return c.emit(computation::make_operator(e.finish(e.binary(ExprOp::Add, e.input(0, type), e.input(1, type)))),
                  {x, bias}, type, std::move(shape));
}

/// Inputs of DynamicQuantizeMatMul and MatMulIntegerToFloat; 0: it has none.
struct FloatProduct {
    size_t a_scale, b_scale, a_zero, b_zero, bias;
};
constexpr FloatProduct kDynamic{0, 2, 0, 3, 4}, kToFloat{2, 3, 4, 5, 6};

Status infer_float_product(InferContext& c, FloatProduct const& p, DataType y) {
    RG_TRY_STATUS(product, infer_product(c, 0, 1));
    auto const& columns = product.b.back();
    if (p.a_scale) RG_CHECK_STATUS(check_scalar(c, p.a_scale, "the scale of A"));
    if (p.a_zero) RG_CHECK_STATUS(check_scalar(c, p.a_zero, "the zero point of A"));
    RG_CHECK_STATUS(check_columns(c, p.b_scale, columns, "the number of scales of B"));
    RG_CHECK_STATUS(check_columns(c, p.b_zero, columns, "the number of zero points of B"));
    if (c.has(p.bias)) {
        RG_CHECK_STATUS(frontend::expect_rank(c.input(p.bias), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(p.bias)[0], columns, "the size of the bias"));
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
    RG_CHECK_STATUS(c.expect_equal(b[tb], a[!ta], "the inner size of the second operand"));
    Shape y{a[ta], b[!tb]};
    for (size_t i : {1, 2, 7, 8}) RG_CHECK_STATUS(check_scalar(c, i, i == 1 || i == 7 ? "a scale" : "a zero point"));
    for (size_t i : {4, 5}) RG_CHECK_STATUS(check_columns(c, i, y[1], "the number of scales or zero points of B"));
    if (c.has(8) && !c.has(7)) return invalid("y_zero_point is given without y_scale");
    if (c.has(6)) RG_CHECK_STATUS(c.expect_broadcast(c.shape(6), y, "C"));
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

}  // namespace

void define_qlinear_products(Definitions& all) {
    using K = AttributeKind;
    auto add = [&](OperatorDef def) {
        def.domain = "com.microsoft";
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
}

}  // namespace refactor::onnx
