#include "computation/operator.h"
#include "contrib_parts.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"

// Integer caches of GroupQueryAttention. Source: onnxruntime, docs/ContribOperators.md and the CPU kernel.

namespace refactor::onnx {

namespace {

using frontend::Expression;
using kernel::ExprOp;

constexpr double kMiddle = 8;  ///< what 4-bit numbers are moved by

/// The scale as it broadcasts to [B, H, T, D].
Edge scale_of_cache(LowerContext& c, CacheFormat format, Edge scale, DimExpr const& heads, DimExpr const& depth) {
    return c.reshape(scale, format.per_channel ? Shape{DimExpr(1), heads, DimExpr(1), depth} : Shape{DimExpr(1)});
}

/// How many positions of `count` a windowed cache holds.
Expression::Value held_of(Expression& e, Expression::Value count, Expression::Value capacity, int64_t window) {
    auto number = [&](int64_t value) { return e.constant(DataType::I64, static_cast<double>(value)); };
    auto group = e.binary(ExprOp::Add, capacity, number(1 - window));
    auto excess = e.binary(ExprOp::Max, e.binary(ExprOp::Sub, count, capacity), number(0));
    auto above = e.binary(ExprOp::Add, excess, e.binary(ExprOp::Sub, group, number(1)));
    return e.binary(ExprOp::Sub, count, e.binary(ExprOp::Mul, group, e.binary(ExprOp::Div, above, group)));
}

}  // namespace

WindowStep window_step(LowerContext& c, DimExpr const& capacity, int64_t window, DimExpr const& queries, Edge lengths) {
    auto batch = lengths->value.shape[0];
    auto size = [&](DimExpr const& value) {
        return c.emit(computation::make_operator(kernel::ShapeValuesInfo{}, {value}), {}, DataType::I64, {DimExpr(1)});
    };
    std::vector<Edge> inputs{lengths, size(capacity), size(queries)};
    auto compute = [&](auto&& value_of) {
        Expression e;
        auto one = e.constant(DataType::I64, 1), none = e.constant(DataType::I64, 0);
        auto all = e.binary(ExprOp::Add, e.cast(e.input(0, DataType::I32), DataType::I64), one);
        auto rows = e.input(1, DataType::I64);
        auto past = e.binary(ExprOp::Max, e.binary(ExprOp::Sub, all, e.input(2, DataType::I64)), none);
        auto held = held_of(e, past, rows, window);
        auto full = e.binary(ExprOp::Add, e.binary(ExprOp::Sub, held, rows), one);
        auto moved = e.binary(ExprOp::Max, full, none);
        auto value = value_of(e, moved, e.binary(ExprOp::Sub, held, moved), all, past, rows);
        return c.emit(computation::make_operator(e.finish(value)), inputs, DataType::I64, {batch});
    };
    using V = Expression::Value;
    auto* moved = compute([](Expression&, V first, V, V, V, V) { return first; });
    auto* held = compute([](Expression&, V, V rest, V, V, V) { return rest; });
    auto* dropped = compute([&](Expression& e, V, V rest, V all, V past, V rows) {
        auto present = e.binary(ExprOp::Add, rest, e.binary(ExprOp::Sub, all, past));
        return e.binary(ExprOp::Sub, present, held_of(e, all, rows, window));
    });
    return {moved, held, dropped};
}

Edge take_rows(LowerContext& c, Edge x, Edge first, DimExpr const& count) {
    auto const& shape = x->value.shape;
    auto batch = shape[0], heads = shape[1], rows = shape[2];
    auto* last =
        c.emit(computation::make_operator(kernel::ShapeValuesInfo{}, {rows - 1}), {}, DataType::I64, {DimExpr(1)});
    // A row of the table is a position of one head of one sequence.
    auto* begins = c.reshape(
        c.emit(computation::make_operator(kernel::RangeInfo{}, {DimExpr(0), rows}), {}, DataType::I64, {batch * heads}),
        {batch, heads, DimExpr(1)});
    Expression e;
    auto row = e.binary(ExprOp::Add, e.input(0, DataType::I64), e.input(1, DataType::I64));
    row = e.binary(ExprOp::Min, row, e.input(2, DataType::I64));
    row = e.binary(ExprOp::Add, row, e.input(3, DataType::I64));
    auto* index = c.emit(computation::make_operator(e.finish(row)),
                         {c.reshape(first, {batch, DimExpr(1), DimExpr(1)}), emit_range(c, 0, count), last, begins},
                         DataType::I64, {batch, heads, count});
    return gather_rows(c, c.reshape(x, {batch * heads * rows, shape[3]}), index);
}

Inferred<CacheFormat> cache_format(NodeView const& n, std::string_view attribute) {
    auto kind = n.text(attribute, "NONE");
    if (kind == "NONE") return CacheFormat{};
    if (kind != "PER_TENSOR" && kind != "PER_CHANNEL")
        return Err{invalid(attribute, " is \"", kind, "\", expected NONE, PER_TENSOR or PER_CHANNEL")};
    auto bits = n.integer("kv_cache_bit_width", 8);
    if (bits != 8 && bits != 4) return Err{invalid("kv_cache_bit_width is ", bits, ", expected 8 or 4")};
    return CacheFormat{bits, kind == "PER_CHANNEL"};
}

Edge to_cache(LowerContext& c, CacheFormat format, Edge x, Edge scale) {
    if (!format.bits) return x;
    auto shape = x->value.shape;
    Expression e;
    auto ratio = e.binary(ExprOp::Div, e.cast(e.input(0, x->value.dtype), DataType::F32), e.input(1, DataType::F32));
    auto most = format.bits == 8 ? 127. : 7.;
    auto limited = e.binary(ExprOp::Max, e.binary(ExprOp::Min, ratio, e.constant(DataType::F32, most)),
                            e.constant(DataType::F32, -most - 1));
    auto value = e.unary(ExprOp::Round, limited);
    if (format.bits == 4) value = e.binary(ExprOp::Add, value, e.constant(DataType::F32, kMiddle));
    auto dtype = format.dtype(x->value.dtype);
    auto* y = c.emit(computation::make_operator(e.finish(e.cast(value, dtype))),
                     {x, scale_of_cache(c, format, scale, shape[1], shape[3])}, dtype, shape);
    if (format.bits == 8) return y;
    auto half = shape;
    half[3] = floor_div(shape[3], 2);
    Expression pack;
    auto high = pack.binary(ExprOp::ShiftLeft, pack.input(1, dtype), pack.constant(dtype, 4));
    auto both = pack.binary(ExprOp::BitOr, pack.input(0, dtype), high);
    std::vector<Edge> halves{emit_slice(c, y, 3, 0, half[3], 2), emit_slice(c, y, 3, 1, half[3], 2)};
    return c.emit(computation::make_operator(pack.finish(both)), halves, dtype, half);
}

Edge from_cache(LowerContext& c, CacheFormat format, Edge x, Edge scale, DataType dtype) {
    if (!format.bits) return x;
    auto shape = x->value.shape;
    auto stored = x->value.dtype;
    if (format.bits == 4) {
        auto pairs = shape;
        pairs.emplace_back(1);
        Edge halves[2];
        for (int i = 0; i < 2; ++i) {
            Expression e;
            auto value = i ? e.binary(ExprOp::ShiftRight, e.input(0, stored), e.constant(stored, 4))
                           : e.binary(ExprOp::BitAnd, e.input(0, stored), e.constant(stored, 15));
            halves[i] = c.reshape(c.emit(computation::make_operator(e.finish(value)), {x}, stored, shape), pairs);
        }
        pairs[4] = 2, shape[3] = shape[3] * 2;
        x = c.reshape(c.emit(computation::make_operator(kernel::ConcatInfo{4}), {halves[0], halves[1]}, stored, pairs),
                      shape);
    }
    Expression e;
    auto value = e.cast(e.input(0, stored), DataType::F32);
    if (format.bits == 4) value = e.binary(ExprOp::Sub, value, e.constant(DataType::F32, kMiddle));
    value = e.cast(e.binary(ExprOp::Mul, value, e.input(1, DataType::F32)), dtype);
    return c.emit(computation::make_operator(e.finish(value)),
                  {x, scale_of_cache(c, format, scale, shape[1], shape[3])}, dtype, shape);
}

}  // namespace refactor::onnx
