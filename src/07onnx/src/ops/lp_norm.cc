#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/reduce.h"
#include "ops/window.h"

// Norms of order p: LpNormalization, GlobalLpPool, LpPool. They are reductions or sums over windows of |x|^p, in f32
// for narrower floats.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using Edge = LowerContext::Edge;
using Value = Expression::Value;

/// The order of the norm; a float in the first versions of the poolings.
double order_of(NodeView const& n) {
    return n.get<float>("p") ? static_cast<double>(n.number("p", 2)) : static_cast<double>(n.integer("p", 2));
}
Status check_order(NodeView const& n) {
    auto p = order_of(n);
    if (p > 0 && p < 1e6) return std::nullopt;
    return invalid("p is ", p, ", expected a positive order");
}

DataType wide_type(DataType type) { return type == DataType::F64 ? DataType::F64 : DataType::F32; }

/// |x|^p in the wider type.
Edge emit_powers(LowerContext& c, double p) {
    auto type = wide_type(c.dtype(0));
    Expression e;
    auto x = e.cast(e.input(0, c.dtype(0)), type);
    auto result = p == 2   ? e.binary(ExprOp::Mul, x, x)
                  : p == 1 ? e.unary(ExprOp::Abs, x)
                           : e.binary(ExprOp::Pow, e.unary(ExprOp::Abs, x), e.constant(type, p));
    return c.emit(computation::make_operator(e.finish(result)), {c.edge(0)}, type, c.shape(0));
}

/// The root of a sum of powers, as output 0.
void emit_root(LowerContext& c, Edge sums, double p) {
    auto type = wide_type(c.dtype(0));
    Expression e;
    auto sum = e.input(0, type);
    auto root = p == 2   ? e.unary(ExprOp::Sqrt, sum)
                : p == 1 ? sum
                         : e.binary(ExprOp::Pow, sum, e.constant(type, 1 / p));
    c.emit_output(computation::make_operator(e.finish(e.cast(root, c.dtype(0)))), {sums});
}

Status infer_lp_normalization(InferContext& c, NodeView const& n) {
    auto p = n.integer("p", 2);
    if (p != 1 && p != 2) return invalid("p is ", p, ", expected 1 or 2");
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    return c.set(0, c.dtype(0), c.shape(0));
}

/// x / norm, and 0 where the norm is 0.
Status lower_lp_normalization(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(axis, frontend::normalize_axis(n.integer("axis", -1), c.shape(0).size()));
    auto type = wide_type(c.dtype(0));
    auto kind = n.integer("p", 2) == 1 ? kernel::ReduceKind::L1 : kernel::ReduceKind::L2;
    auto* norm = c.emit(computation::make_operator(kernel::ReduceInfo{kind, {static_cast<int64_t>(axis)}}),
                        {c.cast(c.edge(0), type)}, type, frontend::without_axes(c.shape(0), {axis}, true));
    Expression e;
    auto x = e.cast(e.input(0, c.dtype(0)), type), by = e.input(1, type), zero = e.constant(type, 0);
    auto result = e.select(e.binary(ExprOp::Equal, by, zero), zero, e.binary(ExprOp::Div, x, by));
    c.emit_output(computation::make_operator(e.finish(e.cast(result, c.dtype(0)))), {c.edge(0), norm});
    return std::nullopt;
}

Status infer_global_lp_pool(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(check_order(n));
    RG_CHECK_STATUS(frontend::expect_rank(c.input(0), 3, 64));
    auto y = c.shape(0);
    for (size_t i = 2; i < y.size(); ++i) y[i] = 1;
    return c.set(0, c.dtype(0), std::move(y));
}

Status lower_global_lp_pool(LowerContext& c, NodeView const& n) {
    auto p = order_of(n);
    Dims axes;
    for (size_t i = 2; i < c.shape(0).size(); ++i) axes.push_back(static_cast<int64_t>(i));
    auto* sums = c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Sum, axes}),
                        {emit_powers(c, p)}, wide_type(c.dtype(0)), *c.output().shape);
    emit_root(c, sums, p);
    return std::nullopt;
}

Status infer_lp_pool(InferContext& c, NodeView const& n) {
    RG_CHECK_STATUS(check_order(n));
    RG_TRY_STATUS(y, pooled_shape(c, n, c.shape(0)));
    return c.set(0, c.dtype(0), y);
}

Status lower_lp_pool(LowerContext& c, NodeView const& n) {
    auto p = order_of(n);
    RG_TRY_STATUS(pool, lower_pool_window(n, c.shape(0)));
    pool.info.kind = kernel::PoolKind::Sum;
    auto* sums = c.emit(computation::make_operator(std::move(pool.info), std::move(pool.params)), {emit_powers(c, p)},
                        wide_type(c.dtype(0)), *c.output().shape);
    emit_root(c, sums, p);
    return std::nullopt;
}

}  // namespace

void define_lp_norm(Definitions& all) {
    using K = AttributeKind;
    all.push_back({.name = "LpNormalization",
                   .types = {{kFloats}},
                   .attributes = {{"axis", K::Int}, {"p", K::Int}},
                   .infer = infer_lp_normalization,
                   .lower = lower_lp_normalization});
    OperatorDef global{.name = "GlobalLpPool",
                       .types = {{kFloats}},
                       .attributes = {{"p", K::Float}},
                       .infer = infer_global_lp_pool,
                       .lower = lower_global_lp_pool};
    all.push_back(global);
    global.since = 2, global.attributes[0].kind = K::Int;
    all.push_back(std::move(global));
    OperatorDef pool{.name = "LpPool",
                     .types = {{kFloats}},
                     .attributes = {{"p", K::Float},
                                    {"kernel_shape", K::Ints},
                                    {"auto_pad", K::String},
                                    {"pads", K::Ints},
                                    {"strides", K::Ints}},
                     .infer = infer_lp_pool,
                     .lower = lower_lp_pool};
    all.push_back(pool);
    pool.since = 2, pool.attributes[0].kind = K::Int, pool.attributes[1].required = true;
    all.push_back(pool);
    pool.since = 18, pool.attributes.insert(pool.attributes.end(), {{"ceil_mode", K::Int}, {"dilations", K::Ints}});
    all.push_back(std::move(pool));
}

}  // namespace refactor::onnx
