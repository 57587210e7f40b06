#include "computation/operator.h"
#include "contrib_parts.h"
#include "frontend/expression.h"
#include "kernel/ops/cache.h"
#include "kernel/ops/movement.h"

// RotaryEmbedding and GroupQueryAttention of com.microsoft. Source: onnxruntime, docs/ContribOperators.md and the CPU
// kernels.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;

// ---------------------------------------------------------------------- RotaryEmbedding
struct Rotary {
    DimExpr batch, length, heads, depth;
    Rotation rotation;
    bool packed;
};

Inferred<Rotary> rotary_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    auto const& x = c.shape(0);
    if (n.integer("is_packed_batching", 0) != 0) return Err{unsupported("is_packed_batching")};
    if (n.number("scale", 1) != 1) return Err{unsupported("scale = ", n.number("scale", 1))};
    if (x.size() != 3 && x.size() != 4) return Err{invalid("the input has ", x.size(), " axes, expected 3 or 4")};
    for (size_t i = 2; i < 4; ++i)
        if (c.shape(i).size() != 2) return Err{invalid("a cache has ", c.shape(i).size(), " axes, expected 2")};
    Rotary r;
    r.packed = x.size() == 3, r.batch = x[0], r.rotation.interleaved = n.integer("interleaved", 0) != 0;
    r.rotation.size = n.integer("rotary_embedding_dim", 0);
    auto heads = n.integer("num_heads", 0);
    if (!r.packed) {
        r.heads = x[1], r.length = x[2], r.depth = x[3];
    } else if (heads > 0) {
        RG_TRY(depth, head_size(x[2], heads, "the input", symbols));
        r.length = x[1], r.heads = heads, r.depth = depth;
    } else {
        r.length = x[1], r.depth = c.shape(2)[1] * 2, r.heads = floor_div(x[2], r.depth);
    }
    auto half = floor_div(r.rotation.size ? DimExpr(r.rotation.size) : r.depth, 2);
    for (size_t i = 2; i < 4; ++i)
        if (auto failure = expect_equal(c.shape(i)[1], half, "the width of a cache", symbols)) return Err{*failure};
    return r;
}

Status infer_rotary(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(r, rotary_of(c, n, c.symbols()));
    RG_CHECK_STATUS(expect_rank(c.input(1), 1, 2));
    auto const& positions = c.shape(1);
    if (positions.size() == 1) {
        RG_CHECK_STATUS(expect_equal(positions[0], 1, "the number of positions", c.symbols()));
    } else {
        RG_CHECK_STATUS(expect_equal(positions[0], r.batch, "the batch of position_ids", c.symbols()));
        RG_CHECK_STATUS(expect_equal(positions[1], r.length, "the length of position_ids", c.symbols()));
    }
    return c.set(0, c.dtype(0), c.shape(0));
}

Edge add_indices(LowerContext& c, Edge a, Edge b, Shape shape) {
    Expression e;
    auto sum = e.binary(ExprOp::Add, e.input(0, DataType::I64), e.input(1, DataType::I64));
    return c.emit(computation::make_operator(e.finish(sum)), {a, b}, DataType::I64, std::move(shape));
}

Edge gather_rows(LowerContext& c, Edge table, Edge rows) {
    auto shape = rows->value.shape;
    shape.push_back(table->value.shape[1]);
    return c.emit(computation::make_operator(kernel::GatherInfo{0}), {table, rows}, table->value.dtype, shape);
}

Status lower_rotary(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(r, rotary_of(c.view(), n, c.symbols()));
    auto* positions = c.edge(1);
    if (c.shape(1).size() == 1) {
        auto* steps = emit_range(c, 0, r.length);
        positions = c.reshape(add_indices(c, steps, positions, {r.length}), {DimExpr(1), r.length});
    }
    auto *cos = gather_rows(c, c.edge(2), positions), *sin = gather_rows(c, c.edge(3), positions);
    auto* x =
        r.packed ? c.reshape(c.edge(0), {r.batch, r.length, r.heads, r.depth}) : c.transpose(c.edge(0), {0, 2, 1, 3});
    auto* y = emit_rotation(c, x, cos, sin, r.rotation);
    c.set_output(0, r.packed ? c.reshape(y, c.shape(0)) : c.transpose(y, {0, 2, 1, 3}));
    return std::nullopt;
}

// ---------------------------------------------------------------------- GroupQueryAttention
struct Grouped {
    int64_t heads, kv_heads;
    DimExpr batch, queries, depth, past, keys;
    bool packed;
};

Inferred<Grouped> grouped_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    Grouped g;
    g.heads = n.integer("num_heads", 0), g.kv_heads = n.integer("kv_num_heads", 0);
    if (g.heads < 1 || g.kv_heads < 1 || g.heads % g.kv_heads)
        return Err{invalid("num_heads is ", g.heads, ", expected a multiple of kv_num_heads, ", g.kv_heads)};
    for (auto name : {"k_quant_type", "v_quant_type"})
        if (n.text(name, "NONE") != "NONE") return Err{unsupported(name, " = ", n.text(name, ""))};
    if (n.integer("smooth_softmax", 0) > 0 || c.has(11)) return Err{unsupported("smooth_softmax and head_sink")};
    if (n.integer("sliding_window_cache", 0) != 0) return Err{unsupported("sliding_window_cache")};
    if (c.has(14) || c.has(15)) return Err{unsupported("q_norm_weight and k_norm_weight")};
    if (!c.has(5) || !c.has(6)) return Err{invalid("seqlens_k or total_sequence_length is omitted")};
    auto const& q = c.shape(0);
    if (q.size() != 3) return Err{invalid("the query has ", q.size(), " axes, expected 3")};
    if (c.has(1) != c.has(2)) return Err{invalid("one of key and value is omitted")};
    g.packed = !c.has(1), g.batch = q[0], g.queries = q[1];
    RG_TRY(depth, head_size(q[2], g.packed ? g.heads + 2 * g.kv_heads : g.heads, "the query", symbols));
    g.depth = depth;
    for (size_t i = 1; i < 3 && !g.packed; ++i) {
        if (c.shape(i).size() != 3) return Err{invalid("key and value need 3 axes")};
        if (auto failure = expect_equal(c.shape(i)[2], depth * g.kv_heads, "the width of key or value", symbols))
            return Err{*failure};
        if (auto failure = expect_equal(c.shape(i)[1], g.queries, "the length of key or value", symbols))
            return Err{*failure};
    }
    if (c.has(3) != c.has(4)) return Err{invalid("one of past_key and past_value is omitted")};
    g.past = 0;
    if (c.has(3)) {
        if (c.shape(3).size() != 4) return Err{invalid("past_key has ", c.shape(3).size(), " axes, expected 4")};
        g.past = c.shape(3)[2];
    }
    RG_TRY(total, c.values(6, "total_sequence_length"));
    if (total.size() != 1) return Err{invalid("total_sequence_length has ", total.size(), " elements, expected 1")};
    // A cache of fixed size keeps it.
    g.keys = total[0] == g.past + g.queries ? total[0] : max(g.past, total[0]);
    return g;
}

Status infer_grouped(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(g, grouped_of(c, n, c.symbols()));
    RG_CHECK_STATUS(expect_rank(c.input(5), 1, 2));
    RG_CHECK_STATUS(expect_equal(element_count(c.shape(5)), g.batch, "the number of seqlens_k", c.symbols()));
    if (n.integer("do_rotary", 0) != 0)
        for (size_t i = 7; i < 9; ++i) {
            if (!c.has(i)) return invalid("do_rotary without cos_cache and sin_cache");
            RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
        }
    Shape cache{g.batch, DimExpr(g.kv_heads), g.keys, g.depth};
    RG_CHECK_STATUS(check_masks(c, 16, 10, {g.batch, DimExpr(g.heads), g.queries, g.keys}));
    RG_CHECK_STATUS(c.set(0, c.dtype(0), {g.batch, g.queries, g.depth * g.heads}));
    for (size_t i = 1; i < 3; ++i) RG_CHECK_STATUS(c.set(i, c.dtype(0), cache));
    return c.set(3, c.dtype(0), {g.batch, DimExpr(g.heads), g.queries, g.keys});
}

/// Position of the first query of each sequence: seqlens_k + 1 - S, 0 for a prompt that is filled up. i64 [B].
Edge first_positions(LowerContext& c, Grouped const& g) {
    auto* queries =
        c.emit(computation::make_operator(kernel::ShapeValuesInfo{}, {g.queries}), {}, DataType::I64, {DimExpr(1)});
    Expression e;
    auto length = e.cast(e.input(0, DataType::I32), DataType::I64);
    auto past =
        e.binary(ExprOp::Sub, e.binary(ExprOp::Add, length, e.constant(DataType::I64, 1)), e.input(1, DataType::I64));
    auto value = e.binary(ExprOp::Max, past, e.constant(DataType::I64, 0));
    return c.emit(computation::make_operator(e.finish(value)), {c.reshape(c.edge(5), {g.batch}), queries},
                  DataType::I64, {g.batch});
}

/// The cache with `fresh` [B, H, S, D] written at `positions`.
Edge extend_cache(LowerContext& c, Edge past, Edge fresh, Edge positions, DimExpr const& keys) {
    auto shape = fresh->value.shape;
    auto dtype = fresh->value.dtype;
    // A prompt without a cache fills it.
    if (!past && shape[2] == keys) return fresh;
    shape[2] = keys;
    auto* cache = past;
    if (!past) cache = c.emit(computation::make_operator(kernel::ExpandInfo{}), {c.scalar(dtype, 0)}, dtype, shape);
    return c.emit(computation::make_operator(kernel::TensorScatterInfo{2, false, true}), {cache, fresh, positions},
                  dtype, shape);
}

Status lower_grouped(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(g, grouped_of(c.view(), n, c.symbols()));
    if (asks_for(c, 3)) return unsupported("the output output_qk");
    Edge parts[3]{c.edge(0), c.edge(1), c.edge(2)};
    if (g.packed) {
        DimExpr first = 0;
        for (int i = 0; i < 3; ++i) {
            auto width = g.depth * (i ? g.kv_heads : g.heads);
            parts[i] = emit_slice(c, c.edge(0), 2, first, width);
            first = first + width;
        }
    }
    auto* positions = first_positions(c, g);
    for (int i = 0; i < 3; ++i)
        parts[i] = c.reshape(parts[i], {g.batch, g.queries, DimExpr(i ? g.kv_heads : g.heads), g.depth});
    if (n.integer("do_rotary", 0) != 0) {
        auto* steps = emit_range(c, 0, g.queries);
        auto* rows = add_indices(c, c.reshape(positions, {g.batch, DimExpr(1)}), steps, {g.batch, g.queries});
        Rotation rotation{n.integer("rotary_interleaved", 0) != 0, 0};
        if (auto width = c.shape(7)[1].constant()) rotation.size = 2 * *width;
        for (int i = 0; i < 2; ++i)
            parts[i] =
                emit_rotation(c, parts[i], gather_rows(c, c.edge(7), rows), gather_rows(c, c.edge(8), rows), rotation);
    }
    for (auto& part : parts) part = c.transpose(part, {0, 2, 1, 3});
    AttentionParts p;
    p.q = parts[0];
    p.k = extend_cache(c, c.edge(3), parts[1], positions, g.keys);
    p.v = extend_cache(c, c.edge(4), parts[2], positions, g.keys);
    if (c.output_count() > 1) c.set_output(1, p.k);
    if (c.output_count() > 2) c.set_output(2, p.v);
    RG_TRY_STATUS(scale, scale_of(n, g.depth));
    p.scale = scale, p.softcap = n.number("softcap", 0);
    auto& see = p.visibility;
    see.causal = n.integer("causal", 1) != 0;
    if (auto window = n.integer("local_window_size", -1); window >= 0) see.left = window - 1;
    see.offsets = positions;
    if (!see.causal) {
        Expression e;
        auto length =
            e.binary(ExprOp::Add, e.cast(e.input(0, DataType::I32), DataType::I64), e.constant(DataType::I64, 1));
        see.lengths = c.emit(computation::make_operator(e.finish(length)), {c.reshape(c.edge(5), {g.batch})},
                             DataType::I64, {g.batch});
    }
    p.mask = c.edge(10);
    RG_TRY_STATUS(y, emit_attention(c, p));
    c.set_output(0, merge_heads(c, y));
    return std::nullopt;
}

}  // namespace

void define_contrib_group_attention(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kI32 = types(DataType::I32);
    all.push_back({.name = "RotaryEmbedding",
                   .inputs = {4, 4},
                   .types = {{kFloats, 'T'}, {kI64}, {kFloats, 'T'}},
                   .attributes = {{"interleaved", K::Int},
                                  {"is_packed_batching", K::Int},
                                  {"num_heads", K::Int},
                                  {"rotary_embedding_dim", K::Int},
                                  {"scale", K::Float}},
                   .infer = infer_rotary,
                   .lower = lower_rotary,
                   .domain = kContribDomain});
    all.push_back({.name = "GroupQueryAttention",
                   .inputs = {1, 16},
                   .outputs = {1, 4},
                   .types = {{kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kI32},
                             {kI32},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kI64},
                             {kFloats, 'T'}},
                   .attributes = {{"causal", K::Int},
                                  {"do_rotary", K::Int},
                                  {"k_quant_type", K::String},
                                  {"kv_cache_bit_width", K::Int},
                                  {"kv_num_heads", K::Int, true},
                                  {"local_window_size", K::Int},
                                  {"num_heads", K::Int, true},
                                  {"qk_norm_epsilon", K::Float},
                                  {"qk_output", K::Int},
                                  {"rotary_interleaved", K::Int},
                                  {"scale", K::Float},
                                  {"sliding_window_cache", K::Int},
                                  {"smooth_softmax", K::Int},
                                  {"softcap", K::Float},
                                  {"v_quant_type", K::String}},
                   .infer = infer_grouped,
                   .lower = lower_grouped,
                   .domain = kContribDomain});
}

}  // namespace refactor::onnx
