#include "attention_parts.h"
#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/cache.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"

#include <cmath>

// RotaryEmbedding, MultiHeadAttention, Attention and GroupQueryAttention of com.microsoft, on the same parts as those
// of ai.onnx. Source: onnxruntime, docs/ContribOperators.md and the CPU kernels.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;
using frontend::Expression;
using kernel::ExprOp;

constexpr std::string_view kDomain = "com.microsoft";

bool asks_for(LowerContext const& c, size_t i) { return i < c.output_count() && !c.output(i).name.empty(); }

Inferred<float> scale_of(NodeView const& n, DimExpr const& depth) {
    if (auto scale = n.number("scale", 0); scale != 0) return scale;
    auto known = depth.constant();
    if (!known) return Err{unsupported("heads of a size that is not known")};
    return static_cast<float>(1 / std::sqrt(static_cast<double>(*known)));
}

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

// ---------------------------------------------------------------------- masks
/// What an integer mask adds to the scores: `filter` where a key is masked. [B, T], [B, S, T], or [B] (lengths) or [2
/// B] (ends, then begins).
Inferred<Edge> padding_bias(LowerContext& c, size_t input, AttentionParts const& p, float filter) {
    auto const& shape = c.shape(input);
    auto const &batch = p.q->value.shape[0], &queries = p.q->value.shape[2], &keys = p.k->value.shape[2];
    auto* mask = c.edge(input);
    Expression e;
    auto zero = e.constant(DataType::F32, 0), masked = e.constant(DataType::F32, static_cast<double>(filter));
    auto none = e.constant(DataType::I32, 0);
    if (shape.size() == 2 || shape.size() == 3) {
        auto value = e.select(e.binary(ExprOp::Equal, e.input(0, DataType::I32), none), masked, zero);
        Shape full{batch, 1, shape.size() == 3 ? queries : DimExpr(1), keys};
        return c.emit(computation::make_operator(e.finish(value)), {c.reshape(mask, full)}, DataType::F32, full);
    }
    if (shape.size() != 1) return Err{unsupported("a mask with ", shape.size(), " axes")};
    Shape column{batch, 1, 1, 1}, full{batch, 1, 1, keys};
    std::vector<Edge> edges{c.cast(emit_range(c, 0, keys), DataType::I32)};
    auto at = e.input(0, DataType::I32);
    auto hidden = e.binary(ExprOp::GreaterEqual, at, e.input(1, DataType::I32));
    if (shape[0] == batch) {
        edges.push_back(c.reshape(mask, column));
    } else if (shape[0] == batch * 2) {
        for (int64_t i = 0; i < 2; ++i) edges.push_back(c.reshape(emit_slice(c, mask, 0, batch * i, batch), column));
        hidden = e.binary(ExprOp::Or, hidden, e.binary(ExprOp::Less, at, e.input(2, DataType::I32)));
    } else {
        return Err{unsupported("a mask of ", shape[0].to_string(c.symbols()), " numbers for ",
                               batch.to_string(c.symbols()), " sequences")};
    }
    return c.emit(computation::make_operator(e.finish(e.select(hidden, masked, zero))), edges, DataType::F32, full);
}

Inferred<Edge> add_biases(LowerContext& c, Edge a, Edge b) {
    if (!a || !b) return a ? a : b;
    a = c.cast(a, DataType::F32), b = c.cast(b, DataType::F32);
    RG_TRY(shape, frontend::broadcast_shapes({a->value.shape, b->value.shape}, c.symbols()));
    Expression e;
    auto sum = e.binary(ExprOp::Add, e.input(0, DataType::F32), e.input(1, DataType::F32));
    return c.emit(computation::make_operator(e.finish(sum)), {a, b}, DataType::F32, shape);
}

/// Sets the mask of `p` from an integer mask (input `mask`) and a bias that is added (input `bias`).
Status set_masks(LowerContext& c, NodeView const& n, size_t mask, size_t bias, AttentionParts& p) {
    Edge padding = nullptr;
    if (c.has(mask)) {
        RG_TRY_STATUS(made, padding_bias(c, mask, p, n.number("mask_filter_value", -10000)));
        padding = made;
    }
    RG_TRY_STATUS(all, add_biases(c, padding, c.edge(bias)));
    p.mask = all;
    return std::nullopt;
}

Status check_masks(InferContext& c, size_t mask, size_t bias, Shape const& scores) {
    if (c.has(mask)) {
        auto const& shape = c.shape(mask);
        if (shape.size() == 2 || shape.size() == 3) {
            RG_CHECK_STATUS(expect_equal(shape[0], scores[0], "the batch of the mask", c.symbols()));
            RG_CHECK_STATUS(expect_equal(shape.back(), scores[3], "the number of keys of the mask", c.symbols()));
            if (shape.size() == 3)
                RG_CHECK_STATUS(expect_equal(shape[1], scores[2], "the number of queries of the mask", c.symbols()));
        }
    }
    if (!c.has(bias)) return std::nullopt;
    RG_CHECK_STATUS(expect_rank(c.input(bias), 4, 4));
    RG_TRY_STATUS(joined, frontend::broadcast_shapes({scores, c.shape(bias)}, c.symbols()));
    for (size_t i = 0; i < 4; ++i)
        RG_CHECK_STATUS(expect_equal(joined[i], scores[i], "a size of attention_bias", c.symbols()));
    return std::nullopt;
}

// ---------------------------------------------------------------------- MultiHeadAttention
struct MultiHead {
    int64_t heads;
    DimExpr batch, queries, fresh, past, depth, value_depth;
    bool packed_all = false, packed_keys = false,
         split_keys = false;  ///< [B, S, H, 3, D]; [B, L, H, 2, D]; [B, H, L, D]
    DimExpr keys() const { return past + fresh; }
};

Inferred<MultiHead> multi_head_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    MultiHead m;
    m.heads = n.integer("num_heads", 0);
    if (c.has(8) || c.has(9))
        return Err{unsupported("a cache of fixed size (past_sequence_length, cache_indirection)")};
    auto const& q = c.shape(0);
    m.packed_all = q.size() == 5;
    if (m.packed_all == c.has(1) || (!m.packed_all && q.size() != 3))
        return Err{invalid("the query has ", q.size(), " axes, expected ", c.has(1) ? "3" : "5 without a key")};
    m.batch = q[0], m.queries = q[1];
    if (m.packed_all) {
        m.depth = m.value_depth = q[4], m.fresh = q[1];
    } else {
        RG_TRY(depth, head_size(q[2], m.heads, "the query", symbols));
        auto const& k = c.shape(1);
        m.depth = m.value_depth = depth, m.packed_keys = k.size() == 5, m.split_keys = k.size() == 4;
        if (m.packed_keys == c.has(2))
            return Err{invalid("the key has ", k.size(), " axes, expected 5 without a value")};
        m.fresh = m.split_keys ? k[2] : k[1];
        auto const& key_depth = m.packed_keys ? k[4] : m.split_keys ? k[3] : floor_div(k.back(), m.heads);
        if (auto failure = expect_equal(key_depth, depth, "the size of a head of the key", symbols))
            return Err{*failure};
        if (c.has(2)) {
            auto const& v = c.shape(2);
            if (v.size() != k.size()) return Err{invalid("the value has ", v.size(), " axes, the key ", k.size())};
            RG_TRY(value_depth,
                   m.split_keys ? Inferred<DimExpr>(v[3]) : head_size(v[2], m.heads, "the value", symbols));
            m.value_depth = value_depth;
            if (auto failure = expect_equal(v[m.split_keys ? 2 : 1], m.fresh, "the length of the value", symbols))
                return Err{*failure};
        }
    }
    if (c.has(6) != c.has(7)) return Err{invalid("one of past_key and past_value is omitted")};
    m.past = 0;
    if (c.has(6)) {
        if (c.shape(6).size() != 4) return Err{invalid("past_key has ", c.shape(6).size(), " axes, expected 4")};
        m.past = c.shape(6)[2];
    }
    return m;
}

Status infer_multi_head(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(m, multi_head_of(c, n, c.symbols()));
    DimExpr heads(m.heads);
    if (c.has(3)) {
        RG_CHECK_STATUS(expect_rank(c.input(3), 1, 1));
        RG_CHECK_STATUS(
            expect_equal(c.shape(3)[0], heads * (m.depth * 2 + m.value_depth), "the size of the bias", c.symbols()));
    }
    RG_CHECK_STATUS(check_masks(c, 4, 5, {m.batch, heads, m.queries, m.keys()}));
    RG_CHECK_STATUS(c.set(0, c.dtype(0), {m.batch, m.queries, heads * m.value_depth}));
    RG_CHECK_STATUS(c.set(1, c.dtype(0), {m.batch, heads, m.keys(), m.depth}));
    RG_CHECK_STATUS(c.set(2, c.dtype(0), {m.batch, heads, m.keys(), m.value_depth}));
    return c.set(3, c.dtype(0), {m.batch, heads, m.queries, m.keys()});
}

/// Part `i` of [B, L, H, parts, D] as [B, H, L, D].
Edge unpack(LowerContext& c, Edge packed, int64_t i) {
    auto shape = packed->value.shape;
    auto* part = c.reshape(emit_slice(c, packed, 3, i, 1), {shape[0], shape[1], shape[2], shape[4]});
    return c.transpose(part, {0, 2, 1, 3});
}

/// Adds the slice [first, first + heads * depth) of `bias` to every position of x [B, H, L, D].
Edge add_head_bias(LowerContext& c, Edge x, Edge bias, DimExpr const& first) {
    if (!bias) return x;
    auto shape = x->value.shape;
    auto* part = c.reshape(emit_slice(c, bias, 0, first, shape[1] * shape[3]), {shape[1], DimExpr(1), shape[3]});
    Expression e;
    auto dtype = x->value.dtype;
    auto sum = e.binary(ExprOp::Add, e.input(0, dtype), e.input(1, dtype));
    return c.emit(computation::make_operator(e.finish(sum)), {x, part}, dtype, shape);
}

Status lower_multi_head(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(m, multi_head_of(c.view(), n, c.symbols()));
    if (asks_for(c, 3)) return unsupported("the output qk");
    AttentionParts p;
    p.q = m.packed_all ? unpack(c, c.edge(0), 0) : split_heads(c, c.edge(0), m.heads);
    if (m.packed_all)
        p.k = unpack(c, c.edge(0), 1), p.v = unpack(c, c.edge(0), 2);
    else if (m.packed_keys)
        p.k = unpack(c, c.edge(1), 0), p.v = unpack(c, c.edge(1), 1);
    else if (m.split_keys)
        p.k = c.edge(1), p.v = c.edge(2);
    else
        p.k = split_heads(c, c.edge(1), m.heads), p.v = split_heads(c, c.edge(2), m.heads);
    auto width = m.depth * m.heads;
    p.q = add_head_bias(c, p.q, c.edge(3), 0);
    // Keys that come from a cache have had their bias.
    if (!m.split_keys) p.k = add_head_bias(c, p.k, c.edge(3), width), p.v = add_head_bias(c, p.v, c.edge(3), width * 2);
    if (c.has(6)) p.k = append_keys(c, c.edge(6), p.k), p.v = append_keys(c, c.edge(7), p.v);
    if (c.output_count() > 1) c.set_output(1, p.k);
    if (c.output_count() > 2) c.set_output(2, p.v);
    RG_TRY_STATUS(scale, scale_of(n, m.depth));
    p.scale = scale;
    p.visibility.causal = n.integer("unidirectional", 0) != 0, p.visibility.offset = m.past;
    RG_CHECK_STATUS(set_masks(c, n, 4, 5, p));
    RG_TRY_STATUS(y, emit_attention(c, p));
    c.set_output(0, merge_heads(c, y));
    return std::nullopt;
}

// ---------------------------------------------------------------------- Attention
struct Projected {
    int64_t heads;
    DimExpr width[3], past;  ///< of Q, K and V
};

Inferred<Projected> projected_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    Projected p;
    p.heads = n.integer("num_heads", 0), p.past = 0;
    if (n.integer("do_rotary", 0) != 0) return Err{unsupported("do_rotary")};
    if (n.integer("past_present_share_buffer", 0) != 0 || c.has(6))
        return Err{unsupported("past_present_share_buffer")};
    if (c.shape(0).size() != 3 || c.shape(1).size() != 2) return Err{invalid("input and weights need 3 and 2 axes")};
    auto const& total = c.shape(1)[1];
    auto sizes = n.integers("qkv_hidden_sizes");
    if (!sizes.empty() && (sizes.size() != 3 || sizes[0] != sizes[1] || sizes[0] < 1 || sizes[2] < 1))
        return Err{invalid("qkv_hidden_sizes must be three sizes, the first two equal")};
    for (size_t i = 0; i < 3; ++i) p.width[i] = sizes.empty() ? floor_div(total, 3) : DimExpr(sizes[i]);
    if (auto failure = expect_equal(p.width[0] + p.width[1] + p.width[2], total, "the width of Q, K and V", symbols))
        return Err{*failure};
    for (auto const& width : p.width) {
        RG_TRY(depth, head_size(width, p.heads, "Q, K or V", symbols));
    }
    if (auto failure = expect_equal(c.shape(1)[0], c.shape(0)[2], "the height of the weights", symbols))
        return Err{*failure};
    if (c.has(4)) {
        if (c.shape(4).size() != 5) return Err{invalid("past has ", c.shape(4).size(), " axes, expected 5")};
        p.past = c.shape(4)[3];
    }
    return p;
}

Status infer_projected(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(p, projected_of(c, n, c.symbols()));
    auto const& x = c.shape(0);
    DimExpr heads(p.heads);
    if (c.has(2)) {
        RG_CHECK_STATUS(expect_rank(c.input(2), 1, 1));
        RG_CHECK_STATUS(expect_equal(c.shape(2)[0], c.shape(1)[1], "the size of the bias", c.symbols()));
    }
    auto keys = p.past + x[1];
    RG_CHECK_STATUS(check_masks(c, 3, 5, {x[0], heads, x[1], keys}));
    RG_CHECK_STATUS(c.set(0, c.dtype(0), {x[0], x[1], p.width[2]}));
    return c.set(1, c.dtype(0), {DimExpr(2), x[0], heads, keys, floor_div(p.width[0], p.heads)});
}

Status lower_projected(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, projected_of(c.view(), n, c.symbols()));
    auto const& x = c.shape(0);
    kernel::MatMulInfo product;
    product.epilogue.bias = c.has(2);
    std::vector<Edge> edges{c.edge(0), c.edge(1)};
    if (c.has(2)) edges.push_back(c.edge(2));
    auto* all = c.emit(computation::make_operator(product), edges, c.dtype(0), {x[0], x[1], c.shape(1)[1]});
    Edge parts[3];
    DimExpr first = 0;
    for (size_t i = 0; i < 3; ++i) {
        parts[i] = split_heads(c, emit_slice(c, all, 2, first, info.width[i]), info.heads);
        first = first + info.width[i];
    }
    AttentionParts p;
    p.q = parts[0], p.k = parts[1], p.v = parts[2];
    if (c.has(4)) {
        auto shape = c.shape(4);
        Shape cache(shape.begin() + 1, shape.end());
        p.k = append_keys(c, c.reshape(emit_slice(c, c.edge(4), 0, 0, 1), cache), p.k);
        p.v = append_keys(c, c.reshape(emit_slice(c, c.edge(4), 0, 1, 1), cache), p.v);
    }
    if (asks_for(c, 1)) {
        auto shape = p.k->value.shape;
        shape.insert(shape.begin(), DimExpr(1));
        c.set_output(1, c.emit(computation::make_operator(kernel::ConcatInfo{0}),
                               {c.reshape(p.k, shape), c.reshape(p.v, shape)}, c.dtype(0), *c.output(1).shape));
    }
    RG_TRY_STATUS(scale, scale_of(n, p.q->value.shape[3]));
    p.scale = scale;
    p.visibility.causal = n.integer("unidirectional", 0) != 0, p.visibility.offset = info.past;
    RG_CHECK_STATUS(set_masks(c, n, 3, 5, p));
    RG_TRY_STATUS(y, emit_attention(c, p));
    c.set_output(0, merge_heads(c, y));
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
    Edge cache = past;
    if (!past)
        cache = c.emit(computation::make_operator(kernel::ExpandInfo{}), {c.scalar(dtype, 0)}, dtype, shape);
    else if (!(past->value.shape[2] == keys))
        cache = c.emit(computation::make_operator(kernel::PadInfo{}, std::vector<DimExpr>(4, DimExpr(0))),
                       {past, c.scalar(dtype, 0)}, dtype, shape);
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

void define_contrib_attention(Definitions& all) {
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
                   .domain = kDomain});
    all.push_back({.name = "MultiHeadAttention",
                   .inputs = {1, 10},
                   .outputs = {1, 4},
                   .types = {{kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kI32},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kFloats, 'T'},
                             {kI32}},
                   .attributes = {{"mask_filter_value", K::Float},
                                  {"num_heads", K::Int, true},
                                  {"scale", K::Float},
                                  {"unidirectional", K::Int}},
                   .infer = infer_multi_head,
                   .lower = lower_multi_head,
                   .domain = kDomain});
    all.push_back(
        {.name = "Attention",
         .inputs = {2, 7},
         .outputs = {1, 2},
         .types = {{kFloats, 'T'}, {kFloats, 'T'}, {kFloats, 'T'}, {kI32}, {kFloats, 'T'}, {kFloats, 'T'}, {kI32}},
         .attributes = {{"do_rotary", K::Int},
                        {"mask_filter_value", K::Float},
                        {"num_heads", K::Int, true},
                        {"past_present_share_buffer", K::Int},
                        {"qkv_hidden_sizes", K::Ints},
                        {"rotary_embedding_dim", K::Int},
                        {"scale", K::Float},
                        {"unidirectional", K::Int}},
         .infer = infer_projected,
         .lower = lower_projected,
         .domain = kDomain});
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
                   .domain = kDomain});
}

}  // namespace refactor::onnx
