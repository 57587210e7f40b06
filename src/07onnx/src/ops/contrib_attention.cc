#include "computation/operator.h"
#include "contrib_parts.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"

// MultiHeadAttention and Attention of com.microsoft, on the same parts as Attention of ai.onnx. Source: onnxruntime,
// docs/ContribOperators.md and the CPU kernels.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;

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
        RG_CHECK_STATUS(c.expect_equal(c.shape(3)[0], heads * (m.depth * 2 + m.value_depth), "the size of the bias"));
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
    return add_edges(c, x, part);
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
        RG_CHECK_STATUS(c.expect_equal(c.shape(2)[0], c.shape(1)[1], "the size of the bias"));
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

}  // namespace

void define_contrib_attention(Definitions& all) {
    using K = AttributeKind;
    constexpr auto kI32 = types(DataType::I32);
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
                   .domain = kContribDomain});
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
         .domain = kContribDomain});
}

}  // namespace refactor::onnx
