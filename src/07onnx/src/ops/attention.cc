#include "attention_parts.h"
#include "computation/operator.h"
#include "frontend/expression.h"
#include "kernel/ops/movement.h"

#include <cmath>

// Attention and RotaryEmbedding of ai.onnx.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;

/// Sizes of one Attention.
struct Geometry {
    DimExpr batch, queries, fresh, past, keys;  ///< fresh: positions of K; keys: with the past
    DimExpr heads, kv_heads, depth, value_depth;
    bool packed = false;  ///< heads are in the last axis
};

Inferred<Geometry> geometry_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    auto const &q = c.shape(0), &k = c.shape(1), &v = c.shape(2);
    Geometry g;
    if ((q.size() != 3 && q.size() != 4) || k.size() != q.size() || v.size() != q.size())
        return Err{invalid("Q, K and V have ", q.size(), ", ", k.size(), " and ", v.size(), " axes, expected 3 or 4")};
    g.packed = q.size() == 3, g.batch = q[0];
    auto heads = n.integer("q_num_heads", 0), kv_heads = n.integer("kv_num_heads", 0);
    if (g.packed) {
        RG_TRY(depth, head_size(q[2], heads, "Q", symbols));
        RG_TRY(key_depth, head_size(k[2], kv_heads, "K", symbols));
        RG_TRY(value_depth, head_size(v[2], kv_heads, "V", symbols));
        g.heads = heads, g.kv_heads = kv_heads, g.depth = depth, g.value_depth = value_depth;
        g.queries = q[1], g.fresh = k[1];
        if (auto failure = expect_equal(key_depth, depth, "the size of a head of K", symbols)) return Err{*failure};
    } else {
        if (n.opset >= 25 && (heads || kv_heads)) return Err{invalid("numbers of heads are given for 4-D inputs")};
        g.heads = q[1], g.kv_heads = k[1], g.queries = q[2], g.fresh = k[2], g.depth = q[3], g.value_depth = v[3];
        for (auto const& [actual, expected, what] :
             {std::tuple(k[3], q[3], "the size of a head of K"), std::tuple(v[1], k[1], "the number of heads of V")})
            if (auto failure = expect_equal(actual, expected, what, symbols)) return Err{*failure};
    }
    auto known_heads = g.heads.constant(), known_kv = g.kv_heads.constant();
    if (known_heads && known_kv && (*known_kv < 1 || *known_heads % *known_kv))
        return Err{invalid(*known_heads, " heads of Q are no multiple of ", *known_kv, " of K")};
    for (auto const& [actual, expected, what] :
         {std::tuple(k[0], q[0], "the batch of K"), std::tuple(v[0], q[0], "the batch of V"),
          std::tuple(g.packed ? v[1] : v[2], g.fresh, "the number of positions of V")})
        if (auto failure = expect_equal(actual, expected, what, symbols)) return Err{*failure};
    if (c.has(4) != c.has(5)) return Err{invalid("one of past_key and past_value is omitted")};
    g.past = c.has(4) ? c.shape(4).size() == 4 ? c.shape(4)[2] : DimExpr(-1) : DimExpr(0);
    if (g.past == DimExpr(-1)) return Err{invalid("past_key has ", c.shape(4).size(), " axes, expected 4")};
    g.keys = g.past + g.fresh;
    return g;
}

Status infer_attention(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(g, geometry_of(c, n, c.symbols()));
    if (c.has(4)) {
        Shape key{g.batch, g.kv_heads, g.past, g.depth}, value{g.batch, g.kv_heads, g.past, g.value_depth};
        for (size_t i = 4; i < 6; ++i) {
            RG_CHECK_STATUS(expect_rank(c.input(i), 4, 4));
            for (size_t k = 0; k < 4; ++k)
                RG_CHECK_STATUS(
                    c.expect_equal(c.shape(i)[k], (i == 4 ? key : value)[k],
                                   frontend::concat("size ", k, i == 4 ? " of past_key" : " of past_value")));
        }
    }
    if (c.has(6)) {
        if (c.has(4)) return invalid("nonpad_kv_seqlen together with past_key");
        RG_CHECK_STATUS(expect_rank(c.input(6), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(6)[0], g.batch, "the size of nonpad_kv_seqlen"));
    }
    for (auto name : {"left_window_size", "right_window_size"})
        if (n.integer(name, -1) < -1) return invalid(name, " is ", n.integer(name, -1), ", expected at least -1");
    if (auto mode = n.integer("qk_matmul_output_mode", 0); mode < 0 || mode > 3)
        return invalid("qk_matmul_output_mode is ", mode, ", expected 0 to 3");
    if (!n.has("scale") && !g.depth.constant())
        return unsupported("heads of the size ", c.text(g.depth), ": the size must be known");
    if (c.has(3)) {
        auto mask = c.shape(3);
        RG_CHECK_STATUS(expect_rank(c.input(3), 1, 4));
        auto known = mask.back().constant(), keys = g.keys.constant();
        if (known && keys && *known > *keys) return invalid("the mask has ", *known, " keys, there are ", *keys);
        mask.back() = 1;
        Shape scores{g.batch, g.heads, g.queries, 1};
        RG_TRY_STATUS(joined, frontend::broadcast_shapes({scores, mask}, c.symbols()));
        for (size_t i = 0; i < 3; ++i) RG_CHECK_STATUS(c.expect_equal(joined[i], scores[i], "a size of the mask"));
    }
    RG_CHECK_STATUS(c.set(0, c.dtype(0),
                          g.packed ? Shape{g.batch, g.queries, g.heads * g.value_depth}
                                   : Shape{g.batch, g.heads, g.queries, g.value_depth}));
    RG_CHECK_STATUS(c.set(1, c.dtype(1), {g.batch, g.kv_heads, g.keys, g.depth}));
    RG_CHECK_STATUS(c.set(2, c.dtype(2), {g.batch, g.kv_heads, g.keys, g.value_depth}));
    return c.set(3, c.dtype(0), {g.batch, g.heads, g.queries, g.keys});
}

Status lower_attention(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(g, geometry_of(c.view(), n, c.symbols()));
    AttentionParts p;
    p.q = c.edge(0), p.k = c.edge(1), p.v = c.edge(2);
    if (g.packed) {
        auto kv_heads = n.integer("kv_num_heads", 0);
        p.q = split_heads(c, p.q, n.integer("q_num_heads", 0));
        p.k = split_heads(c, p.k, kv_heads), p.v = split_heads(c, p.v, kv_heads);
    }
    if (c.has(4)) p.k = append_keys(c, c.edge(4), p.k), p.v = append_keys(c, c.edge(5), p.v);
    if (c.output_count() > 1) c.set_output(1, p.k);
    if (c.output_count() > 2) c.set_output(2, p.v);
    p.scale = n.has("scale") ? n.number("scale", 1)
                             : static_cast<float>(1 / std::sqrt(static_cast<double>(*g.depth.constant())));
    p.softcap = n.number("softcap", 0);
    p.mask = c.edge(3);
    auto& see = p.visibility;
    see.causal = n.integer("is_causal", 0) != 0, see.offset = g.past;
    see.left = n.integer("left_window_size", -1), see.right = n.integer("right_window_size", -1);
    if (c.has(6)) {
        see.lengths = c.edge(6);
        frontend::Expression e;
        auto length = e.input(0, DataType::I64), queries = e.input(1, DataType::I64);
        auto* count =
            c.emit(computation::make_operator(kernel::ShapeValuesInfo{}, {g.queries}), {}, DataType::I64, {DimExpr(1)});
        see.offsets = c.emit(computation::make_operator(e.finish(e.binary(kernel::ExprOp::Sub, length, queries))),
                             {c.edge(6), count}, DataType::I64, {g.batch});
    }
    bool wants_scores = c.output_count() > 3 && !c.output(3).name.empty();
    Edge scores = nullptr;
    auto mode = static_cast<ScoreOutput>(n.integer("qk_matmul_output_mode", 0));
    RG_TRY_STATUS(y, emit_attention(c, p, mode, wants_scores ? &scores : nullptr));
    c.set_output(0, c.cast(g.packed ? merge_heads(c, y) : y, c.output().dtype));
    if (wants_scores) c.set_output(3, scores);
    return std::nullopt;
}

/// Whether a cache has more columns than are turned, of which the first count: as in ONNX 1.18, which introduced the
/// operator; later releases ask for equal sizes.
bool is_wider(DimExpr const& size, DimExpr const& half) {
    auto have = size.constant(), needed = half.constant();
    return have && needed && *have > *needed;
}

Inferred<Rotated> rotated_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    auto const& x = c.shape(0);
    Rotated r;
    if (x.size() != 3 && x.size() != 4) return Err{invalid("X has ", x.size(), " axes, expected 3 or 4")};
    r.packed = x.size() == 3, r.batch = x[0];
    if (r.packed) {
        auto heads = n.integer("num_heads", 0);
        RG_TRY(depth, head_size(x[2], heads, "X", symbols));
        r.length = x[1], r.heads = heads, r.depth = depth;
    } else {
        r.heads = x[1], r.length = x[2], r.depth = x[3];
    }
    r.rotation = {n.integer("interleaved", 0) != 0, n.integer("rotary_embedding_dim", 0)};
    auto size = r.rotation.size ? DimExpr(r.rotation.size) : r.depth;
    if (auto known = size.constant(); known && (*known % 2 || *known < 0))
        return Err{invalid("the rotated size is ", *known, ", expected an even number")};
    if (auto depth = r.depth.constant(); depth && r.rotation.size > *depth)
        return Err{invalid("rotary_embedding_dim is ", r.rotation.size, ", a head has the size ", *depth)};
    size_t rank = c.has(3) ? 2 : 3;
    for (size_t i = 1; i < 3; ++i) {
        auto const& cache = c.shape(i);
        if (cache.size() != rank)
            return Err{invalid("a cache has ", cache.size(), " axes, expected ", rank,
                               c.has(3) ? "" : " without position_ids")};
        auto half = floor_div(size, 2);
        if (is_wider(cache.back(), half)) continue;
        if (auto failure = expect_equal(cache.back(), half, "the last size of a cache", symbols)) return Err{*failure};
    }
    return r;
}

Status infer_rotary(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(r, rotated_of(c, n, c.symbols()));
    if (c.has(3)) {
        RG_CHECK_STATUS(expect_rank(c.input(3), 2, 2));
        RG_CHECK_STATUS(c.expect_equal(c.shape(3)[0], r.batch, "the batch of position_ids"));
        RG_CHECK_STATUS(c.expect_equal(c.shape(3)[1], r.length, "the length of position_ids"));
    } else {
        for (size_t i = 1; i < 3; ++i) {
            RG_CHECK_STATUS(c.expect_equal(c.shape(i)[0], r.batch, "the batch of a cache"));
            RG_CHECK_STATUS(c.expect_equal(c.shape(i)[1], r.length, "the length of a cache"));
        }
    }
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_rotary(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(r, rotated_of(c.view(), n, c.symbols()));
    auto half = floor_div(r.rotation.size ? DimExpr(r.rotation.size) : r.depth, 2);
    Edge caches[2];
    for (size_t i = 0; i < 2; ++i) {
        caches[i] = c.edge(i + 1);
        auto last = c.shape(i + 1).size() - 1;
        if (is_wider(c.shape(i + 1)[last], half)) caches[i] = emit_slice(c, caches[i], last, 0, half);
        if (c.has(3)) caches[i] = gather_rows(c, caches[i], c.edge(3));
    }
    c.set_output(0, emit_rotary(c, r, c.edge(0), caches[0], caches[1]));
    return std::nullopt;
}

void define_attention_of_onnx(Definitions& all) {
    using K = AttributeKind;
    OperatorDef def{
        .name = "Attention",
        .since = 23,
        .inputs = {3, 6},
        .outputs = {1, 4},
        .types = {{kFloats, 'T'}, {kFloats, 'T'}, {kFloats, 'V'}, {kNumbers | kBool}, {kFloats, 'T'}, {kFloats, 'V'}},
        .attributes = {{"is_causal", K::Int},
                       {"kv_num_heads", K::Int},
                       {"q_num_heads", K::Int},
                       {"qk_matmul_output_mode", K::Int},
                       {"scale", K::Float},
                       {"softcap", K::Float},
                       {"softmax_precision", K::Int}},
        .infer = infer_attention,
        .lower = lower_attention};
    all.push_back(def);
    def.since = 24, def.inputs = {3, 7}, def.types.push_back({kI64});
    all.push_back(def);
    def.since = 25;
    def.attributes.push_back({"left_window_size", K::Int}), def.attributes.push_back({"right_window_size", K::Int});
    all.push_back(std::move(def));
}

}  // namespace

void define_attention(Definitions& all) {
    using K = AttributeKind;
    define_attention_of_onnx(all);
    all.push_back({.name = "RotaryEmbedding",
                   .since = 23,
                   .inputs = {3, 4},
                   .types = {{kFloats, 'T'}, {kFloats, 'T'}, {kFloats, 'T'}, {kI64}},
                   .attributes = {{"interleaved", K::Int}, {"num_heads", K::Int}, {"rotary_embedding_dim", K::Int}},
                   .infer = infer_rotary,
                   .lower = lower_rotary});
}

}  // namespace refactor::onnx
