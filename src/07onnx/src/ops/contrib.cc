#include "computation/operator.h"
#include "contrib_parts.h"
#include "frontend/expression.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

#include <algorithm>

// Fused products, activations and normalisations of com.microsoft, taken apart so that the passes fuse them their way.
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
        RG_CHECK_STATUS(expect_equal(c.shape(1)[0], c.shape(0).back(), "the size of the bias", c.symbols()));
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

Edge add(LowerContext& c, Edge x, Edge other) {
    Expression e;
    auto dtype = x->value.dtype;
    auto sum = e.binary(ExprOp::Add, e.input(0, dtype), e.input(1, dtype));
    return c.emit(computation::make_operator(e.finish(sum)), {x, other}, dtype, x->value.shape);
}

Status lower_split_gelu(LowerContext& c, NodeView const&) {
    auto* x = c.has(1) ? add(c, c.edge(0), c.edge(1)) : c.edge(0);
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
    c.set_output(0, add(c, add(c, c.edge(0), c.edge(1)), c.edge(2)));
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

/// An activation that FusedGemm may name; its parameters come in `activation_alpha` and `activation_beta`.
struct NamedActivation {
    std::string_view name;
    ExprOp op;
    float alpha = 0, beta = 0;
};
constexpr NamedActivation kActivations[]{
    {"Elu", ExprOp::Elu, 1},
    {"HardSigmoid", ExprOp::HardSigmoid, 0.2f, 0.5f},
    {"LeakyRelu", ExprOp::LeakyRelu, 0.01f},
    {"Relu", ExprOp::Relu},
    {"Selu", ExprOp::Selu, 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"Sigmoid", ExprOp::Sigmoid},
    {"Softplus", ExprOp::Softplus},
    {"Softsign", ExprOp::Softsign},
    {"Tanh", ExprOp::Tanh},
    {"ThresholdedRelu", ExprOp::ThresholdedRelu, 1},
};

NamedActivation const* activation_of(NodeView const& n) {
    auto* found = std::find_if(std::begin(kActivations), std::end(kActivations),
                               [&](auto const& a) { return a.name == n.text("activation", ""); });
    return found == std::end(kActivations) ? nullptr : found;
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
        for (size_t i = 0; i < 2; ++i) RG_CHECK_STATUS(expect_equal(joined[i], p.y[i], "a size of C", c.symbols()));
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

// ---------------------------------------------------------------------- normalisations
Status infer_simplified(InferContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), x.size()));
    RG_CHECK_STATUS(expect_rank(c.input(1), x.size() - axis, x.size() - axis));
    for (size_t i = axis; i < x.size(); ++i)
        RG_CHECK_STATUS(expect_equal(c.shape(1)[i - axis], x[i], "a size of the scale", c.symbols()));
    if (c.output_count() > 1) return unsupported("the output InvStdVar, of training");
    return c.set(0, c.dtype(0), x);
}

Status lower_simplified(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    kernel::LayerNormInfo info;
    info.axis = static_cast<int64_t>(axis), info.epsilon = n.number("epsilon", 1e-5f), info.rms = true;
    c.emit_output(computation::make_operator(info), {c.edge(0), c.cast(c.edge(1), c.dtype(0))});
    return std::nullopt;
}

bool is_rms(NodeView const& n) { return n.op_type == "SkipSimplifiedLayerNormalization"; }
/// Input numbers of beta (-1: none) and bias.
int beta_of(InferContext const& c, NodeView const& n) { return !is_rms(n) && c.has(3) ? 3 : -1; }
size_t bias_of(NodeView const& n) { return is_rms(n) ? 3 : 4; }

Status infer_skip_norm(InferContext& c, NodeView const& n) {
    auto const& x = c.shape(0);
    RG_CHECK_STATUS(expect_rank(c.input(0), 2, 3));
    RG_TRY_STATUS(joined, frontend::broadcast_shapes({x, c.shape(1)}, c.symbols()));
    if (joined.size() != x.size()) return invalid("skip of shape ", c.text(c.shape(1)), " for input ", c.text(x));
    for (size_t i = 0; i < x.size(); ++i)
        RG_CHECK_STATUS(expect_equal(joined[i], x[i], frontend::concat("size ", i, " of skip"), c.symbols()));
    for (size_t i = 2; i < c.input_count(); ++i) {
        if (!c.has(i)) continue;
        RG_CHECK_STATUS(expect_rank(c.input(i), 1, 1));
        RG_CHECK_STATUS(expect_equal(c.shape(i)[0], x.back(), frontend::concat("the size of input ", i), c.symbols()));
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0), x));
    auto statistics = x;
    statistics.back() = 1;
    for (size_t i = 1; i < 3; ++i) RG_CHECK_STATUS(c.set(i, DataType::F32, statistics));
    (void)n;
    return c.set(3, c.dtype(0), x);
}

Status lower_skip_norm(LowerContext& c, NodeView const& n) {
    for (size_t i = 1; i < std::min<size_t>(c.output_count(), 3); ++i)
        if (!c.output(i).name.empty()) return unsupported("the outputs mean and inv_std_var, of training");
    kernel::LayerNormInfo info;
    auto const& x = c.shape(0);
    auto beta = beta_of(c.view(), n);
    info.axis = static_cast<int64_t>(x.size()) - 1, info.epsilon = n.number("epsilon", 1e-12f);
    info.rms = is_rms(n), info.has_bias = beta >= 0;
    auto* input = c.edge(0);
    if (auto bias = bias_of(n); c.has(bias)) input = add(c, input, c.edge(bias));
    info.residual = c.shape(1) == x;
    if (!info.residual) input = add(c, input, c.edge(1));
    std::vector<Edge> edges{input, c.edge(2)};
    if (beta >= 0) edges.push_back(c.edge(static_cast<size_t>(beta)));
    if (info.residual) edges.push_back(c.edge(1));
    bool wants_sum = c.output_count() > 3;
    std::vector<LowerContext::Spec> specs{{c.dtype(0), x}};
    if (wants_sum && info.residual) specs.push_back({c.dtype(0), x});
    auto results = c.emit_all(computation::make_operator(info), edges, std::move(specs));
    c.set_output(0, results[0]);
    if (wants_sum) c.set_output(3, info.residual ? results[1] : input);
    return std::nullopt;
}

Status infer_embed(InferContext& c, NodeView const&) {
    for (size_t i : {2, 3, 5, 6})
        if (!c.has(i)) return invalid("the required input ", i, " is omitted");
    RG_CHECK_STATUS(expect_rank(c.input(0), 2, 2));
    for (size_t i : {2, 3}) RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
    auto const &ids = c.shape(0), &words = c.shape(2);
    if (c.has(1) != c.has(4)) return invalid("one of segment_ids and segment_embedding is omitted");
    for (size_t i : {3, 4})
        if (c.has(i))
            RG_CHECK_STATUS(expect_equal(c.shape(i).back(), words[1], "the width of an embedding", c.symbols()));
    for (size_t i : {5, 6}) {
        RG_CHECK_STATUS(expect_rank(c.input(i), 1, 1));
        RG_CHECK_STATUS(expect_equal(c.shape(i)[0], words[1], "the size of gamma or beta", c.symbols()));
    }
    for (size_t i : {1, 7, 8}) {
        if (!c.has(i)) continue;
        RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
        RG_CHECK_STATUS(expect_equal(c.shape(i)[1], ids[1], frontend::concat("the length of input ", i), c.symbols()));
        if (i < 8) RG_CHECK_STATUS(expect_equal(c.shape(i)[0], ids[0], "a batch", c.symbols()));
    }
    Shape y{ids[0], ids[1], words[1]};
    RG_CHECK_STATUS(c.set(0, c.dtype(2), y));
    RG_CHECK_STATUS(c.set(1, DataType::I32, {ids[0]}));
    return c.set(2, c.dtype(2), y);
}

Status lower_embed(LowerContext& c, NodeView const& n) {
    auto dtype = c.dtype(2);
    auto const &ids = c.shape(0), &y = *c.output().shape;
    auto gather = [&](size_t table, Edge rows) {
        auto shape = rows->value.shape;
        shape.push_back(y[2]);
        return c.emit(computation::make_operator(kernel::GatherInfo{0}), {c.edge(table), rows}, dtype, shape);
    };
    auto* positions = c.has(8) ? c.edge(8) : emit_range(c, 0, ids[1]);
    auto* sum = add(c, gather(2, c.edge(0)), gather(3, positions));
    if (c.has(1)) sum = add(c, sum, gather(4, c.edge(1)));
    kernel::LayerNormInfo info;
    info.axis = 2, info.epsilon = n.number("epsilon", 1e-12f), info.has_bias = true;
    c.emit_output(computation::make_operator(info), {sum, c.edge(5), c.edge(6)});
    if (c.output_count() > 1) {
        auto* zero = c.scalar(DataType::I32, 0);
        c.set_output(
            1, c.has(7) ? c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Sum, {1}}),
                                 {c.edge(7)}, DataType::I32, {ids[0]})
                        : c.emit(computation::make_operator(kernel::ExpandInfo{}), {zero}, DataType::I32, {ids[0]}));
    }
    if (c.output_count() > 2) c.set_output(2, sum);
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

void define_norms(Definitions& all) {
    using K = AttributeKind;
    // Exporters write SimplifiedLayerNormalization into the domain of ONNX, where it does not exist.
    for (auto domain : {std::string_view{}, kContribDomain})
        all.push_back({.name = "SimplifiedLayerNormalization",
                       .inputs = {2, 2},
                       .outputs = {1, 2},
                       .types = {{kFloats}},
                       .attributes = {{"axis", K::Int}, {"epsilon", K::Float}, {"stash_type", K::Int}},
                       .infer = infer_simplified,
                       .lower = lower_simplified,
                       .domain = domain});
    OperatorDef skip{.name = "SkipLayerNormalization",
                     .inputs = {3, 5},
                     .outputs = {1, 4},
                     .types = {{kFloats, 'T'}},
                     .attributes = {{"epsilon", K::Float}},
                     .infer = infer_skip_norm,
                     .lower = lower_skip_norm,
                     .domain = kContribDomain};
    all.push_back(skip);
    skip.name = "SkipSimplifiedLayerNormalization", skip.inputs = {3, 4};
    all.push_back(std::move(skip));
    all.push_back({.name = "EmbedLayerNormalization",
                   .inputs = {1, 9},
                   .outputs = {1, 3},
                   .types = {{kIndices, 'I'},
                             {kIndices, 'I'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {types(DataType::I32)},
                             {kIndices, 'I'}},
                   .attributes = {{"epsilon", K::Float}, {"mask_index_type", K::Int}},
                   .infer = infer_embed,
                   .lower = lower_embed,
                   .domain = kContribDomain});
}

}  // namespace

void define_contrib(Definitions& all) {
    define_products(all);
    define_norms(all);
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
