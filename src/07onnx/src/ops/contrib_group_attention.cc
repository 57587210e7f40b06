#include "computation/operator.h"
#include "contrib_parts.h"
#include "frontend/expression.h"
#include "kernel/ops/cache.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

// GroupQueryAttention of com.microsoft. Source: onnxruntime, docs/ContribOperators.md and the CPU
// kernels.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;

struct Grouped {
    int64_t heads, kv_heads;
    DimExpr batch, queries, depth, past;
    DimExpr keys, kept;  ///< rows that the queries see, and of a cache that is made
    int64_t window = 0;  ///< of a cache that holds the last positions alone, else 0
    bool packed;
    CacheFormat formats[2];  ///< of keys and values
};

/// The window of a cache that holds the last positions alone.
Inferred<int64_t> windowed_size(InferContext const& c, NodeView const& n) {
    auto window = n.integer("local_window_size", -1);
    if (window < 1)
        return Err{invalid("local_window_size is ", window, ", expected a window for sliding_window_cache")};
    if (!c.has(3)) return Err{invalid("sliding_window_cache without past_key")};
    if (c.has(10)) return Err{unsupported("attention_bias with sliding_window_cache")};
    if (c.output_count() > 3 && !c.output_name(3).empty())
        return Err{unsupported("output_qk with sliding_window_cache")};
    return window;
}

Inferred<Grouped> grouped_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    Grouped g;
    g.heads = n.integer("num_heads", 0), g.kv_heads = n.integer("kv_num_heads", 0);
    if (g.heads < 1 || g.kv_heads < 1 || g.heads % g.kv_heads)
        return Err{invalid("num_heads is ", g.heads, ", expected a multiple of kv_num_heads, ", g.kv_heads)};
    for (size_t i = 0; i < 2; ++i) {
        RG_TRY(format, cache_format(n, i ? "v_quant_type" : "k_quant_type"));
        g.formats[i] = format;
        if (format.bits && !c.has(12 + i)) return Err{invalid("a scale of the cache is omitted")};
    }
    if (c.has(14) != c.has(15)) return Err{invalid("one of q_norm_weight and k_norm_weight is omitted")};
    if (n.integer("causal", 1) == 0 && n.integer("local_window_size", -1) >= 0)
        return Err{invalid("local_window_size is ", n.integer("local_window_size", -1), " where causal is 0")};
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
    if (n.integer("sliding_window_cache", 0) != 0) {
        RG_TRY(window, windowed_size(c, n));
        g.window = window, g.kept = g.past, g.keys = g.past + g.queries - 1;
        return g;
    }
    RG_TRY(total, c.values(6, "total_sequence_length"));
    if (total.size() != 1) return Err{invalid("total_sequence_length has ", total.size(), " elements, expected 1")};
    // A cache of fixed size keeps it.
    g.kept = g.keys = total[0] == g.past + g.queries ? total[0] : max(g.past, total[0]);
    return g;
}

/// What norms, sinks and scales of caches must be.
Status check_vectors(InferContext& c, Grouped const& g) {
    auto expect_size = [&](size_t input, DimExpr const& size, std::string_view what) -> Status {
        if (!c.has(input)) return std::nullopt;
        return c.expect_equal(element_count(c.shape(input)), size, what);
    };
    RG_CHECK_STATUS(expect_size(11, g.heads, "the size of head_sink"));
    for (size_t i = 0; i < 2; ++i) {
        if (!g.formats[i].bits) continue;
        auto size = g.formats[i].per_channel ? g.depth * g.kv_heads : DimExpr(1);
        RG_CHECK_STATUS(expect_size(12 + i, size, "the number of scales of a cache"));
        if (auto depth = g.depth.constant(); g.formats[i].bits == 4 && depth && *depth % 2)
            return invalid("a head has ", *depth, " elements, expected an even number for 4 bits");
    }
    for (size_t i = 14; i < 16; ++i) RG_CHECK_STATUS(expect_size(i, g.depth, "the size of a norm's weight"));
    return std::nullopt;
}

Status infer_grouped(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(g, grouped_of(c, n, c.symbols()));
    RG_CHECK_STATUS(expect_rank(c.input(5), 1, 2));
    RG_CHECK_STATUS(c.expect_equal(element_count(c.shape(5)), g.batch, "the number of seqlens_k"));
    if (n.integer("do_rotary", 0) != 0)
        for (size_t i = 7; i < 9; ++i) {
            if (!c.has(i)) return invalid("do_rotary without cos_cache and sin_cache");
            RG_CHECK_STATUS(expect_rank(c.input(i), 2, 2));
        }
    if (c.has(9)) {
        RG_CHECK_STATUS(expect_rank(c.input(9), 2, 2));
        RG_CHECK_STATUS(c.expect_equal(c.shape(9)[0], g.batch, "the batch of position_ids"));
        RG_CHECK_STATUS(c.expect_equal(c.shape(9)[1], g.queries, "the length of position_ids"));
    }
    if (g.window) RG_CHECK_STATUS(c.expect_equal(g.past, max(g.past, g.window), "the capacity of a windowed cache"));
    RG_CHECK_STATUS(check_vectors(c, g));
    if (auto scores = n.integer("qk_output", 0);
        c.output_count() > 3 && !c.output_name(3).empty() && scores != 1 && scores != 2)
        return invalid("qk_output is ", scores, ", expected 1 or 2 for the output output_qk");
    RG_CHECK_STATUS(check_masks(c, 16, 10, {g.batch, DimExpr(g.heads), g.queries, g.keys}));
    RG_CHECK_STATUS(c.set(0, c.dtype(0), {g.batch, g.queries, g.depth * g.heads}));
    for (size_t i = 0; i < 2; ++i) {
        auto dtype = g.formats[i].dtype(c.dtype(0));
        auto width = g.formats[i].width(g.depth);
        if (c.has(3 + i)) {
            if (c.dtype(3 + i) != dtype)
                return invalid("a cache is ", name_of(c.dtype(3 + i)), ", expected ", name_of(dtype));
            RG_CHECK_STATUS(c.expect_equal(c.shape(3 + i)[3], width, "the last size of a cache"));
        }
        RG_CHECK_STATUS(c.set(1 + i, dtype, {g.batch, DimExpr(g.kv_heads), g.kept, width}));
    }
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

/// Query, key and value as [B, S, heads, D].
void take_parts(LowerContext& c, Grouped const& g, Edge (&parts)[3]) {
    DimExpr first = 0;
    for (int i = 0; i < 3; ++i) {
        auto heads = DimExpr(i ? g.kv_heads : g.heads);
        auto width = g.depth * heads;
        parts[i] = g.packed ? emit_slice(c, c.edge(0), 2, first, width) : c.edge(static_cast<size_t>(i));
        parts[i] = c.reshape(parts[i], {g.batch, g.queries, heads, g.depth});
        first = first + width;
    }
}

/// Normalises and rotates queries and keys where the node asks for it.
void prepare_parts(LowerContext& c, NodeView const& n, Grouped const& g, Edge positions, Edge (&parts)[3]) {
    if (c.has(14)) {
        kernel::LayerNormInfo norm;
        norm.axis = 3, norm.rms = true, norm.epsilon = n.number("qk_norm_epsilon", 1e-6f);
        for (size_t i = 0; i < 2; ++i)
            parts[i] = c.emit(computation::make_operator(norm), {parts[i], c.reshape(c.edge(14 + i), {g.depth})},
                              parts[i]->value.dtype, parts[i]->value.shape);
    }
    if (n.integer("do_rotary", 0) == 0) return;
    auto* rows = c.edge(9);
    if (!rows)
        rows = add_indices(c, c.reshape(positions, {g.batch, DimExpr(1)}), emit_range(c, 0, g.queries),
                           {g.batch, g.queries});
    Rotation rotation{n.integer("rotary_interleaved", 0) != 0, 0};
    if (auto width = c.shape(7)[1].constant()) rotation.size = 2 * *width;
    for (int i = 0; i < 2; ++i)
        parts[i] =
            emit_rotation(c, parts[i], gather_rows(c, c.edge(7), rows), gather_rows(c, c.edge(8), rows), rotation);
}

Visibility visibility_of(LowerContext& c, NodeView const& n, Grouped const& g, Edge positions) {
    Visibility see;
    see.causal = n.integer("causal", 1) != 0;
    if (auto window = n.integer("local_window_size", -1); window >= 0) see.left = window - 1;
    see.offsets = positions;
    if (see.causal) return see;
    Expression e;
    auto length = e.binary(ExprOp::Add, e.cast(e.input(0, DataType::I32), DataType::I64), e.constant(DataType::I64, 1));
    see.lengths = c.emit(computation::make_operator(e.finish(length)), {c.reshape(c.edge(5), {g.batch})}, DataType::I64,
                         {g.batch});
    return see;
}

/// 0 for the keys that a query may not see.
Edge hide(LowerContext& c, AttentionParts const& p, Edge scores) {
    auto* allowed = position_mask(c, p, p.visibility.causal);
    if (!allowed) return scores;
    Expression e;
    auto dtype = scores->value.dtype;
    auto value = e.select(e.input(1, DataType::Bool), e.input(0, dtype), e.constant(dtype, 0));
    return c.emit(computation::make_operator(e.finish(value)), {scores, allowed}, dtype, scores->value.shape);
}

Status lower_grouped(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(g, grouped_of(c.view(), n, c.symbols()));
    bool wants_scores = asks_for(c, 3);
    auto output = n.integer("qk_output", 0);
    Edge parts[3];
    take_parts(c, g, parts);
    auto* positions = first_positions(c, g);
    prepare_parts(c, n, g, positions, parts);
    for (auto& part : parts) part = c.transpose(part, {0, 2, 1, 3});
    std::optional<WindowStep> step;
    if (g.window) step = window_step(c, g.past, g.window, g.queries, c.reshape(c.edge(5), {g.batch}));
    auto* rows = step ? step->held : positions;
    AttentionParts p;
    p.q = parts[0];
    for (size_t i = 0; i < 2; ++i) {
        auto* fresh = to_cache(c, g.formats[i], parts[1 + i], c.edge(12 + i));
        auto* past = step ? take_rows(c, c.edge(3 + i), step->moved, g.keys) : c.edge(3 + i);
        auto* cache = extend_cache(c, past, fresh, rows, g.keys);
        if (asks_for(c, 1 + i)) c.set_output(1 + i, step ? take_rows(c, cache, step->dropped, g.kept) : cache);
        (i ? p.v : p.k) = from_cache(c, g.formats[i], cache, c.edge(12 + i), c.dtype(0));
    }
    RG_TRY_STATUS(scale, scale_of(n, g.depth));
    p.scale = scale, p.softcap = n.number("softcap", 0);
    p.visibility = visibility_of(c, n, g, rows);
    p.mask = c.edge(10);
    if (c.has(11))
        p.sinks = c.reshape(c.edge(11), {DimExpr(g.heads)});
    else if (n.integer("smooth_softmax", 0) > 0)
        p.sinks = c.emit(computation::make_operator(kernel::ExpandInfo{}), {c.scalar(c.dtype(0), 0)}, c.dtype(0),
                         {DimExpr(g.heads)});
    Edge scores = nullptr;
    auto wanted = output == 1 ? ScoreOutput::Masked : ScoreOutput::Probabilities;
    RG_TRY_STATUS(y, emit_attention(c, p, wanted, wants_scores ? &scores : nullptr));
    c.set_output(0, merge_heads(c, y));
    if (wants_scores) c.set_output(3, output == 1 ? hide(c, p, scores) : scores);
    return std::nullopt;
}

}  // namespace

void define_contrib_group_attention(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kI32 = types(DataType::I32), kCaches = kFloats | types(DataType::I8, DataType::U8);
    all.push_back({.name = "GroupQueryAttention",
                   .inputs = {1, 16},
                   .outputs = {1, 4},
                   .types = {{kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kCaches, 'K'},
                             {kCaches, 'V'},
                             {kI32},
                             {kI32},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kI64},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {types(DataType::F32)},
                             {types(DataType::F32)},
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
