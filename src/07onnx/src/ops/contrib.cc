#include "computation/operator.h"
#include "contrib_parts.h"
#include "frontend/expression.h"
#include "kernel/ops/matmul.h"

#include <algorithm>

// Fused products and activations of com.microsoft, taken apart so that the passes fuse them their way.
// Source: onnxruntime, docs/ContribOperators.md.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;
using Value = Expression::Value;

// ---------------------------------------------------------------------- activations
Status infer_activation(InferContext& c, NodeView const& n) {
    if (c.has(1)) {
        RG_CHECK_STATUS(expect_rank(c.input(1), 1, 1));
        if (c.shape(0).empty()) return invalid("a scalar takes no bias");
        RG_CHECK_STATUS(c.expect_equal(c.shape(1)[0], c.shape(0).back(), "the size of the bias"));
    }
    auto shape = c.shape(0);
    if (n.op_type == "BiasSplitGelu") {
        RG_TRY_STATUS(half, head_size(shape.back(), 2, "X", c.symbols()));
        shape.back() = half;
    }
    return c.set(0, c.dtype(0), std::move(shape));
}

Status lower_activation(LowerContext& c, NodeView const& n) {
    Expression e;
    auto x = e.input(0, c.dtype(0));
    std::vector<Edge> edges{c.edge(0)};
    if (c.has(1)) x = e.binary(ExprOp::Add, x, e.input(1, c.dtype(0))), edges.push_back(c.edge(1));
    Value y;
    if (n.op_type == "QuickGelu") {
        auto slope = e.constant(c.dtype(0), static_cast<double>(n.number("alpha", 1.702f)));
        y = e.binary(ExprOp::Mul, x, e.unary(ExprOp::Sigmoid, e.binary(ExprOp::Mul, x, slope)));
    } else {
        y = e.unary(n.op_type == "FastGelu" ? ExprOp::GeluTanh : ExprOp::GeluErf, x);
    }
    c.emit_output(computation::make_operator(e.finish(y)), edges);
    return std::nullopt;
}

Status lower_split_gelu(LowerContext& c, NodeView const&) {
    auto* x = c.has(1) ? add_edges(c, c.edge(0), c.edge(1)) : c.edge(0);
    auto axis = c.shape(0).size() - 1;
    auto half = c.output().shape->back();
    Expression e;
    auto dtype = c.dtype(0);
    auto y = e.binary(ExprOp::Mul, e.input(0, dtype), e.unary(ExprOp::GeluErf, e.input(1, dtype)));
    c.emit_output(computation::make_operator(e.finish(y)),
                  {emit_slice(c, x, axis, 0, half), emit_slice(c, x, axis, half, half)});
    return std::nullopt;
}

Status infer_bias_add(InferContext& c, NodeView const&) {
    RG_CHECK_STATUS(expect_rank(c.input(1), 1, 1));
    RG_TRY_STATUS(joined, frontend::broadcast_shapes({c.shape(0), c.shape(1), c.shape(2)}, c.symbols()));
    return c.set(0, c.dtype(0), joined);
}
Status lower_bias_add(LowerContext& c, NodeView const&) {
    c.set_output(0, add_edges(c, add_edges(c, c.edge(0), c.edge(1)), c.edge(2)));
    return std::nullopt;
}

// ---------------------------------------------------------------------- products
/// Operands as matrices [..., rows, columns], and the result.
struct Product {
    bool trans_a, trans_b, vector_a, vector_b;
    std::vector<int64_t> move_a, move_b;  ///< permutations of the batch axes; empty: none
    Shape a, b, full, y;
};

/// The first axis behind the other batch axes.
std::vector<int64_t> batch_permutation(size_t rank) {
    std::vector<int64_t> perm;
    for (size_t i = 1; i + 1 < rank; ++i) perm.push_back(static_cast<int64_t>(i));
    perm.push_back(0), perm.push_back(static_cast<int64_t>(rank) - 1);
    return perm;
}

Inferred<Product> product_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    Product p{};
    p.a = c.shape(0), p.b = c.shape(1);
    if (p.a.empty() || p.b.empty()) return Err{invalid("a scalar is no operand of a matrix product")};
    p.vector_a = p.a.size() == 1, p.vector_b = p.b.size() == 1;
    if (p.vector_a) p.a.insert(p.a.begin(), DimExpr(1));
    if (p.vector_b) p.b.emplace_back(1);
    p.trans_a = n.integer("transA", 0) != 0 && !p.vector_a, p.trans_b = n.integer("transB", 0) != 0 && !p.vector_b;
    auto move = [](Shape& shape, std::vector<int64_t>& perm) {
        perm = batch_permutation(shape.size());
        auto old = shape;
        for (size_t i = 0; i < perm.size(); ++i) shape[i] = old[static_cast<size_t>(perm[i])];
    };
    if (n.integer("transBatchA", 0) != 0 && p.a.size() > 2) move(p.a, p.move_a);
    if (n.integer("transBatchB", 0) != 0 && p.b.size() > 2) move(p.b, p.move_b);
    auto ra = p.a.size(), rb = p.b.size();
    auto m = p.a[ra - 1 - !p.trans_a], k = p.a[ra - 1 - p.trans_a], other = p.b[rb - 1 - !p.trans_b],
         columns = p.b[rb - 1 - p.trans_b];
    if (auto failure = expect_equal(other, k, "the inner size of the second operand", symbols)) return Err{*failure};
    RG_TRY(batch,
           frontend::broadcast_shapes({Shape(p.a.begin(), p.a.end() - 2), Shape(p.b.begin(), p.b.end() - 2)}, symbols));
    p.full = p.y = batch;
    p.full.push_back(m), p.full.push_back(columns);
    if (!p.vector_a) p.y.push_back(m);
    if (!p.vector_b) p.y.push_back(columns);
    return p;
}

Status infer_matmul(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(p, product_of(c, n, c.symbols()));
    return c.set(0, c.dtype(0), p.y);
}

Status lower_matmul(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(p, product_of(c.view(), n, c.symbols()));
    kernel::MatMulInfo info;
    info.trans_a = p.trans_a, info.trans_b = p.trans_b, info.alpha = n.number("alpha", 1);
    auto operand = [&](size_t i, std::vector<int64_t> const& perm, Shape const& shape) {
        return perm.empty() ? c.reshape(c.edge(i), shape) : c.transpose(c.edge(i), perm);
    };
    auto* y = c.emit(computation::make_operator(info), {operand(0, p.move_a, p.a), operand(1, p.move_b, p.b)},
                     c.dtype(0), p.full);
    c.set_output(0, c.reshape(y, p.y));
    return std::nullopt;
}

Status infer_gemm(InferContext& c, NodeView const& n) {
    for (size_t i = 0; i < 2; ++i) RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
    if (auto name = n.text("activation", ""); !name.empty() && !activation_of(n))
        return unsupported("the activation \"", name, "\"");
    RG_TRY_STATUS(p, product_of(c, n, c.symbols()));
    if (c.has(2)) {
        RG_TRY_STATUS(joined, frontend::broadcast_shapes({p.y, c.shape(2)}, c.symbols()));
        if (joined.size() != 2)
            return invalid("C of shape ", c.text(c.shape(2)), " cannot be broadcast to ", c.text(p.y));
        for (size_t i = 0; i < 2; ++i) RG_CHECK_STATUS(c.expect_equal(joined[i], p.y[i], "a size of C"));
    }
    return c.set(0, c.dtype(0), p.y);
}

Status lower_gemm(LowerContext& c, NodeView const& n) {
    kernel::MatMulInfo info;
    info.trans_a = n.integer("transA", 0) != 0, info.trans_b = n.integer("transB", 0) != 0;
    info.alpha = n.number("alpha", 1);
    auto dtype = c.dtype(0);
    auto* y = c.emit(computation::make_operator(info), {c.edge(0), c.edge(1)}, dtype, *c.output().shape);
    Expression e;
    auto x = e.input(0, dtype);
    auto sum = x;
    std::vector<Edge> edges{y};
    auto beta = n.number("beta", 1);
    if (c.has(2) && beta != 0) {
        auto term = e.input(1, dtype);
        if (beta != 1) term = e.binary(ExprOp::Mul, term, e.constant(dtype, static_cast<double>(beta)));
        sum = e.binary(ExprOp::Add, x, term), edges.push_back(c.edge(2));
    }
    if (auto const* a = activation_of(n))
        sum = e.unary(a->op, sum, n.number("activation_alpha", a->alpha), n.number("activation_beta", a->beta));
    if (sum == x)
        c.set_output(0, y);
    else
        c.emit_output(computation::make_operator(e.finish(sum)), edges);
    return std::nullopt;
}

void define_products(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "FusedMatMul",
                   .inputs = {2, 2},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"alpha", K::Float},
                                  {"transA", K::Int},
                                  {"transB", K::Int},
                                  {"transBatchA", K::Int},
                                  {"transBatchB", K::Int}},
                   .infer = infer_matmul,
                   .lower = lower_matmul,
                   .domain = kContribDomain});
    all.push_back({.name = "FusedGemm",
                   .inputs = {2, 3},
                   .types = {{kFloats, 'T'}},
                   .attributes = {{"activation", K::String},
                                  {"activation_alpha", K::Float},
                                  {"activation_beta", K::Float},
                                  {"activation_gamma", K::Float},
                                  {"alpha", K::Float},
                                  {"beta", K::Float},
                                  {"transA", K::Int},
                                  {"transB", K::Int}},
                   .infer = infer_gemm,
                   .lower = lower_gemm,
                   .domain = kContribDomain});
}

}  // namespace

void define_contrib(Definitions& all) {
    define_products(all);
    OperatorDef def{.inputs = {1, 1},
                    .types = {{kFloats, 'T'}},
                    .infer = infer_activation,
                    .lower = lower_activation,
                    .domain = kContribDomain};
    def.name = "Gelu", all.push_back(def);
    def.name = "FastGelu", def.inputs = {1, 2}, all.push_back(def);
    def.name = "BiasGelu", def.inputs = {2, 2}, all.push_back(def);
    def.name = "BiasSplitGelu", def.lower = lower_split_gelu, all.push_back(def);
    def.name = "BiasAdd", def.inputs = {3, 3}, def.infer = infer_bias_add, def.lower = lower_bias_add;
    all.push_back(def);
    def.name = "QuickGelu", def.inputs = {1, 1}, def.infer = infer_activation, def.lower = lower_activation;
    def.attributes = {{"alpha", AttributeKind::Float}};
    all.push_back(std::move(def));
}

}  // namespace refactor::onnx
