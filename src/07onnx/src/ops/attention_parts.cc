#include "attention_parts.h"

#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

#include <cmath>

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;
using Value = Expression::Value;

Shape joined(LowerContext& c, std::vector<Shape> const& shapes) {
    auto shape = frontend::broadcast_shapes(shapes, c.symbols());
    return shape ? *shape : shapes[0];
}

/// Fills a mask that is shorter than the keys up with "may not".
Edge pad_mask(LowerContext& c, Edge mask, DimExpr const& keys) {
    auto shape = mask->value.shape;
    if (shape.empty() || shape.back() == keys) return mask;
    auto dtype = mask->value.dtype;
    shape.back() = keys;
    auto* filler = c.scalar(dtype, dtype == DataType::Bool ? 0 : -INFINITY);
    std::vector<DimExpr> begins(shape.size(), DimExpr(0));
    return c.emit(computation::make_operator(kernel::PadInfo{}, std::move(begins)), {mask, filler}, dtype, shape);
}

/// One mask of the type that the kernel takes: bool, or `wide`; null: none.
Edge combine_masks(LowerContext& c, Edge mask, Edge allowed, DataType wide) {
    if (mask && mask->value.dtype != DataType::Bool) mask = c.cast(mask, wide);
    if (!mask || !allowed) return mask ? mask : allowed;
    auto shape = joined(c, {mask->value.shape, allowed->value.shape});
    Expression e;
    auto dtype = mask->value.dtype;
    auto m = e.input(0, dtype), a = e.input(1, DataType::Bool);
    auto both = dtype == DataType::Bool ? e.binary(ExprOp::And, m, a) : e.select(a, m, e.constant(dtype, -INFINITY));
    return c.emit(computation::make_operator(e.finish(both)), {mask, allowed}, dtype, shape);
}

Edge add_mask(LowerContext& c, Edge scores, Edge mask) {
    if (!mask) return scores;
    Expression e;
    auto dtype = scores->value.dtype;
    auto x = e.input(0, dtype), m = e.input(1, mask->value.dtype);
    auto masked = mask->value.dtype == DataType::Bool ? e.select(m, x, e.constant(dtype, -INFINITY))
                                                      : e.binary(ExprOp::Add, x, m);
    return c.emit(computation::make_operator(e.finish(masked)), {scores, mask}, dtype, scores->value.shape);
}

/// Softmax over the keys. Where all of them are hidden, by scores of -inf, it is zero; where a score is NaN, it is,
/// too.
Edge softmax_of_seen(LowerContext& c, Edge scores) {
    auto dtype = scores->value.dtype;
    auto shape = scores->value.shape, one = shape;
    one[3] = 1;
    kernel::SoftmaxInfo softmax;
    softmax.axis = 3;
    auto* p = c.emit(computation::make_operator(softmax), {scores}, dtype, shape);
    auto* most =
        c.emit(computation::make_operator(kernel::ReduceInfo{kernel::ReduceKind::Max, {3}}), {scores}, dtype, one);
    Expression e;
    auto hidden = e.binary(ExprOp::Equal, e.input(1, dtype), e.constant(dtype, -INFINITY));
    auto seen = e.select(hidden, e.constant(dtype, 0.), e.input(0, dtype));
    return c.emit(computation::make_operator(e.finish(seen)), {p, most}, dtype, shape);
}

/// The same next to one score of each head that is dropped afterwards.
Edge softmax_with_sinks(LowerContext& c, Edge scores, Edge sinks) {
    if (!sinks) return softmax_of_seen(c, scores);
    auto all = scores->value.shape, more = all, one = all;
    auto dtype = scores->value.dtype;
    one[3] = 1, more[3] = all[3] + 1;
    auto* column = c.emit(computation::make_operator(kernel::ExpandInfo{}),
                          {c.reshape(sinks, {DimExpr(1), all[1], DimExpr(1), DimExpr(1)})}, dtype, one);
    auto* x = c.emit(computation::make_operator(kernel::ConcatInfo{3}), {scores, column}, dtype, more);
    return emit_slice(c, softmax_of_seen(c, x), 3, 0, all[3]);
}

/// The steps one by one, where the scores are changed or wanted. Heads that share keys are rows of one product.
Edge compose(LowerContext& c, AttentionParts const& p, Edge mask, ScoreOutput wanted, Edge* scores) {
    auto const &q = p.q->value.shape, &k = p.k->value.shape, &v = p.v->value.shape;
    auto dtype = p.q->value.dtype;
    auto rows = floor_div(q[1], k[1]) * q[2];
    Shape all{q[0], q[1], q[2], k[2]};
    auto take = [&](ScoreOutput which, Edge edge) {
        if (scores && wanted == which) *scores = edge;
    };
    kernel::MatMulInfo product;
    product.trans_b = true, product.alpha = p.scale;
    auto* x = c.emit(computation::make_operator(product), {c.reshape(p.q, {k[0], k[1], rows, q[3]}), p.k}, dtype,
                     {k[0], k[1], rows, k[2]});
    x = c.reshape(x, all);
    take(ScoreOutput::Product, x);
    if (p.softcap != 0) {
        Expression e;
        auto cap = e.constant(dtype, static_cast<double>(p.softcap));
        auto capped = e.binary(ExprOp::Mul, e.unary(ExprOp::Tanh, e.binary(ExprOp::Div, e.input(0, dtype), cap)), cap);
        x = c.emit(computation::make_operator(e.finish(capped)), {x}, dtype, all);
    }
    take(ScoreOutput::Capped, x);
    x = add_mask(c, x, mask);
    take(ScoreOutput::Masked, x);
    x = softmax_with_sinks(c, x, p.sinks);
    take(ScoreOutput::Probabilities, x);
    auto* y = c.emit(computation::make_operator(kernel::MatMulInfo{}), {c.reshape(x, {k[0], k[1], rows, k[2]}), p.v},
                     dtype, {k[0], k[1], rows, v[3]});
    return c.reshape(y, {q[0], q[1], q[2], v[3]});
}

}  // namespace

Edge position_mask(LowerContext& c, AttentionParts const& parts, bool causal) {
    auto const& see = parts.visibility;
    if (!causal && see.left < 0 && see.right < 0 && !see.lengths) return nullptr;
    auto const &queries = parts.q->value.shape[2], &keys = parts.k->value.shape[2], &batch = parts.q->value.shape[0];
    auto* rows = c.reshape(emit_range(c, see.offsets ? DimExpr(0) : see.offset, queries), {queries, DimExpr(1)});
    std::vector<Edge> edges{rows, emit_range(c, 0, keys)};
    std::vector<Shape> shapes{{queries, keys}};
    Expression e;
    auto row = e.input(0, DataType::I64), column = e.input(1, DataType::I64);
    auto per_batch = [&](Edge edge) {
        auto value = e.input(static_cast<uint16_t>(edges.size()), DataType::I64);
        shapes.push_back({batch, 1, 1, 1});
        edges.push_back(c.reshape(edge, shapes.back()));
        return value;
    };
    if (see.offsets) row = e.binary(ExprOp::Add, row, per_batch(see.offsets));
    std::optional<Value> allowed;
    auto require = [&](Value condition) { allowed = allowed ? e.binary(ExprOp::And, *allowed, condition) : condition; };
    auto moved = [&](int64_t by) {
        return by ? e.binary(ExprOp::Add, row, e.constant(DataType::I64, static_cast<double>(by))) : row;
    };
    if (causal) require(e.binary(ExprOp::LessEqual, column, row));
    if (see.right >= 0) require(e.binary(ExprOp::LessEqual, column, moved(see.right)));
    if (see.left >= 0) require(e.binary(ExprOp::GreaterEqual, column, moved(-see.left)));
    if (see.lengths) require(e.binary(ExprOp::Less, column, per_batch(see.lengths)));
    return c.emit(computation::make_operator(e.finish(*allowed)), edges, DataType::Bool, joined(c, shapes));
}

Edge emit_range(LowerContext& c, DimExpr const& start, DimExpr const& size) {
    return c.emit(computation::make_operator(kernel::RangeInfo{}, {start, DimExpr(1)}), {}, DataType::I64, {size});
}

Edge emit_slice(LowerContext& c, Edge edge, size_t axis, DimExpr const& start, DimExpr const& size, int64_t step) {
    auto shape = edge->value.shape;
    std::vector<DimExpr> starts(shape.size(), DimExpr(0));
    Dims steps(shape.size(), 1);
    starts[axis] = start, steps[axis] = step, shape[axis] = size;
    return c.emit(computation::make_operator(kernel::SliceInfo{steps}, std::move(starts)), {edge}, edge->value.dtype,
                  shape);
}

Inferred<DimExpr> head_size(DimExpr const& size, int64_t heads, std::string_view role, SymbolTable const& symbols) {
    if (heads < 1) return Err{invalid("the number of heads of ", role, " is ", heads, ", expected at least 1")};
    if (auto known = size.constant(); known && *known % heads)
        return Err{
            invalid("the size of ", role, ", ", size.to_string(symbols), ", is no multiple of ", heads, " heads")};
    return floor_div(size, heads);
}

Edge split_heads(LowerContext& c, Edge x, int64_t heads) {
    auto const& shape = x->value.shape;
    return c.transpose(c.reshape(x, {shape[0], shape[1], DimExpr(heads), floor_div(shape[2], heads)}), {0, 2, 1, 3});
}

Edge merge_heads(LowerContext& c, Edge x) {
    auto* moved = c.transpose(x, {0, 2, 1, 3});
    auto shape = moved->value.shape;
    return c.reshape(moved, {shape[0], shape[1], shape[2] * shape[3]});
}

Edge append_keys(LowerContext& c, Edge past, Edge fresh) {
    auto shape = past->value.shape;
    shape[2] = shape[2] + fresh->value.shape[2];
    return c.emit(computation::make_operator(kernel::ConcatInfo{2}), {past, fresh}, past->value.dtype, shape);
}

Inferred<Edge> emit_attention(LowerContext& c, AttentionParts const& given, ScoreOutput wanted, Edge* scores) {
    auto p = given;
    auto dtype = p.q->value.dtype, result = p.v->value.dtype;
    auto wide = dtype == DataType::F64 || result == DataType::F64 ? DataType::F64 : DataType::F32;
    p.q = c.cast(p.q, wide), p.k = c.cast(p.k, wide), p.v = c.cast(p.v, wide);
    if (p.sinks) p.sinks = c.cast(p.sinks, wide);
    auto const &q = p.q->value.shape, &k = p.k->value.shape;
    bool composed = scores != nullptr;
    // The kernel's own rule is aligned at the last query and key.
    bool aligned = !p.visibility.offsets && p.visibility.offset + q[2] == k[2] && !composed;
    auto* allowed = position_mask(c, p, p.visibility.causal && !aligned);
    auto* mask = p.mask ? pad_mask(c, p.mask, k[2]) : nullptr;
    mask = combine_masks(c, mask, allowed, wide);
    if (mask && mask->value.shape.size() > 4)
        return Err{invalid("the mask has ", mask->value.shape.size(), " axes, expected at most 4")};
    if (composed) {
        auto* y = c.cast(compose(c, p, mask, wanted, scores), result);
        if (scores) *scores = c.cast(*scores, dtype);
        return y;
    }
    kernel::AttentionInfo info;
    info.scale = p.scale, info.softcap = std::abs(p.softcap), info.causal = p.visibility.causal && aligned,
    info.has_mask = mask != nullptr;
    info.unseen_to_zero = true, info.has_sinks = p.sinks != nullptr;
    if (p.mask && allowed) info.hidden = kernel::HiddenKeys::Absent;
    std::vector<Edge> edges{p.q, p.k, p.v};
    if (mask) edges.push_back(mask);
    if (p.sinks) edges.push_back(p.sinks);
    return c.cast(c.emit(computation::make_operator(info), edges, wide, {q[0], q[1], q[2], p.v->value.shape[3]}),
                  result);
}

Edge emit_rotation(LowerContext& c, Edge x, Edge cosines, Edge sines, Rotation const& rotation) {
    auto shape = x->value.shape;
    auto dtype = x->value.dtype;
    DimExpr size = rotation.size ? DimExpr(rotation.size) : shape[3];
    auto half = floor_div(size, 2);
    auto step = rotation.interleaved ? 2 : 1;
    Edge parts[2];
    for (int64_t i = 0; i < 2; ++i)
        parts[i] = emit_slice(c, x, 3, rotation.interleaved ? DimExpr(i) : half * i, half, step);
    auto angle_shape = cosines->value.shape;
    angle_shape.insert(angle_shape.begin() + 2, DimExpr(1));
    auto *cos = c.reshape(cosines, angle_shape), *sin = c.reshape(sines, angle_shape);
    auto turned = parts[0]->value.shape;
    Edge results[2];
    for (int i = 0; i < 2; ++i) {
        Expression e;
        auto a = e.binary(ExprOp::Mul, e.input(2, dtype), e.input(0, dtype));
        auto b = e.binary(ExprOp::Mul, e.input(3, dtype), e.input(1, dtype));
        auto value = e.binary(i ? ExprOp::Add : ExprOp::Sub, a, b);
        std::vector<Edge> edges{parts[0], parts[1], i ? sin : cos, i ? cos : sin};
        results[i] = c.emit(computation::make_operator(e.finish(value)), edges, dtype, turned);
    }
    auto whole = shape;
    whole[3] = half * 2;
    Edge y;
    if (rotation.interleaved) {
        auto pairs = turned;
        pairs.emplace_back(1);
        for (auto& part : results) part = c.reshape(part, pairs);
        pairs.back() = 2;
        y = c.emit(computation::make_operator(kernel::ConcatInfo{4}), {results[0], results[1]}, dtype, pairs);
        y = c.reshape(y, whole);
    } else {
        y = c.emit(computation::make_operator(kernel::ConcatInfo{3}), {results[0], results[1]}, dtype, whole);
    }
    if (size == shape[3]) return y;
    auto* rest = emit_slice(c, x, 3, size, shape[3] - size);
    return c.emit(computation::make_operator(kernel::ConcatInfo{3}), {y, rest}, dtype, shape);
}

Edge emit_rotary(LowerContext& c, Rotated const& r, Edge x, Edge cosines, Edge sines) {
    auto shape = x->value.shape;
    x = r.packed ? c.reshape(x, {r.batch, r.length, r.heads, r.depth}) : c.transpose(x, {0, 2, 1, 3});
    x = emit_rotation(c, x, cosines, sines, r.rotation);
    return r.packed ? c.reshape(x, shape) : c.transpose(x, {0, 2, 1, 3});
}

Edge gather_rows(LowerContext& c, Edge table, Edge rows) {
    auto shape = rows->value.shape;
    shape.push_back(table->value.shape[1]);
    return c.emit(computation::make_operator(kernel::GatherInfo{0}), {table, rows}, table->value.dtype, shape);
}

}  // namespace refactor::onnx
