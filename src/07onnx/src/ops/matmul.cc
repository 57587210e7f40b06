#include "ops/matmul.h"

#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/matmul.h"

namespace refactor::onnx {

Inferred<Product> product_of(Shape a, Shape b, SymbolTable const& symbols) {
    if (a.empty() || b.empty()) return Err{invalid("a scalar is no operand of a matrix product")};
    Product p;
    p.vector_a = a.size() == 1, p.vector_b = b.size() == 1;
    if (p.vector_a) a.insert(a.begin(), DimExpr(1));
    if (p.vector_b) b.emplace_back(1);
    auto k = a.back(), other = b[b.size() - 2];
    if (auto failure = frontend::expect_equal(other, k, "the number of rows of the second operand", symbols))
        return Err{*failure};
    auto m = a[a.size() - 2], n = b.back();
    Shape batch_a(a.begin(), a.end() - 2), batch_b(b.begin(), b.end() - 2);
    RG_TRY(batch, frontend::broadcast_shapes({batch_a, batch_b}, symbols));
    p.a = std::move(a), p.b = std::move(b), p.y = batch;
    if (!p.vector_a) p.y.push_back(m);
    if (!p.vector_b) p.y.push_back(n);
    return p;
}

Inferred<Product> infer_product(InferContext& c, size_t a, size_t b) {
    RG_TRY(p, product_of(c.shape(a), c.shape(b), c.symbols()));
    if (auto failure = c.expect_equal(p.b[p.b.size() - 2], p.a.back(), "the number of rows of the second operand"))
        return Err{*failure};
    return p;
}

Shape Product::full() const {
    Shape shape(y.begin(), y.end() - !vector_a - !vector_b);
    shape.push_back(a[a.size() - 2]), shape.push_back(b.back());
    return shape;
}

namespace {

using frontend::Expression;
using kernel::ExprOp;
using kernel::MatMulInfo;

Status infer_matmul(InferContext& c, NodeView const&) {
    RG_TRY_STATUS(product, infer_product(c, 0, 1));
    return c.set(0, c.dtype(0), product.y);
}

Status lower_matmul(LowerContext& c, NodeView const&) {
    RG_TRY_STATUS(product, product_of(c.shape(0), c.shape(1), c.symbols()));
    auto* a = c.reshape(c.edge(0), product.a);
    auto* b = c.reshape(c.edge(1), product.b);
    if (!product.vector_a && !product.vector_b) {
        c.emit_output(computation::make_operator(MatMulInfo{}), {a, b});
        return std::nullopt;
    }
    auto* y = c.emit(computation::make_operator(MatMulInfo{}), {a, b}, c.dtype(0), product.full());
    c.set_output(0, c.reshape(y, product.y));
    return std::nullopt;
}

Status infer_gemm(InferContext& c, NodeView const& n) {
    for (size_t i = 0; i < 2; ++i) RG_CHECK_STATUS(frontend::expect_rank(c.input(i), 2, 2));
    bool ta = n.integer("transA", 0) != 0, tb = n.integer("transB", 0) != 0;
    auto const &a = c.shape(0), &b = c.shape(1);
    RG_CHECK_STATUS(c.expect_equal(b[tb], a[!ta], "the inner size of the second operand"));
    Shape y{a[ta], b[!tb]};
    if (c.has(2)) {
        RG_CHECK_STATUS(c.expect_broadcast(c.shape(2), y, "C"));
        // Opsets 1 to 6 asked for the attribute.
        if (n.opset < 7 && n.integer("broadcast", 0) == 0 && c.shape(2).size() != 2)
            return invalid("C of shape ", c.text(c.shape(2)), " cannot be broadcast to ", c.text(y));
    }
    return c.set(0, c.dtype(0), std::move(y));
}

/// Whether C is one value for each column, as the epilogue of a product takes it.
bool is_bias(Shape const& bias, Shape const& y) {
    if (bias.size() == 2 && bias[0] != DimExpr(1)) return false;
    return !bias.empty() && bias.size() <= 2 && bias.back() == y[1];
}

Status lower_gemm(LowerContext& c, NodeView const& n) {
    MatMulInfo info;
    info.trans_a = n.integer("transA", 0) != 0, info.trans_b = n.integer("transB", 0) != 0;
    info.alpha = n.number("alpha", 1);
    auto beta = n.number("beta", 1);
    auto const& y = *c.output().shape;
    auto dtype = c.dtype(0);
    bool has_c = c.has(2) && beta != 0;
    if (has_c && beta == 1 && info.alpha == 1 && is_bias(c.shape(2), y)) {
        info.epilogue.bias = true;
        c.emit_output(computation::make_operator(info), {c.edge(0), c.edge(1), c.reshape(c.edge(2), {y[1]})});
        return std::nullopt;
    }
    if (!has_c) {
        c.emit_output(computation::make_operator(info), {c.edge(0), c.edge(1)});
        return std::nullopt;
    }
    auto* product = c.emit(computation::make_operator(info), {c.edge(0), c.edge(1)}, dtype, y);
    Expression e;
    auto x = e.input(0, dtype), term = e.input(1, dtype);
    if (beta != 1) term = e.binary(ExprOp::Mul, term, e.constant(dtype, beta));
    c.emit_output(computation::make_operator(e.finish(e.binary(ExprOp::Add, x, term))), {product, c.edge(2)});
    return std::nullopt;
}

}  // namespace

void define_matmul(Definitions& all) {
    using K = AttributeKind;
    constexpr TypeSet kTypes = kFloats | types(DataType::I32, DataType::I64, DataType::U32, DataType::U64);
    all.push_back(
        {.name = "MatMul", .inputs = {2, 2}, .types = {{kTypes, 'T'}}, .infer = infer_matmul, .lower = lower_matmul});
    OperatorDef gemm{.name = "Gemm",
                     .inputs = {3, 3},
                     .types = {{kTypes, 'T'}},
                     .attributes = {{"alpha", K::Float},
                                    {"beta", K::Float},
                                    {"transA", K::Int},
                                    {"transB", K::Int},
                                    {"broadcast", K::Int}},
                     .infer = infer_gemm,
                     .lower = lower_gemm};
    all.push_back(gemm);
    gemm.since = 7, gemm.attributes.pop_back();
    all.push_back(gemm);
    gemm.since = 11, gemm.inputs = {2, 3};
    all.push_back(std::move(gemm));
}

}  // namespace refactor::onnx
