#include "formula.h"
#include "kernel/ops/matmul.h"
#include "operator_def.h"

#include <cmath>

namespace refactor::pnnx {

namespace {

/// Q, K, V [B, H, positions, D]; mask as of `kernel::AttentionInfo`, or null.
struct Attention {
    Edge q, k, v, mask = nullptr;
    double scale = 0;  ///< 0: 1 / sqrt(D)
    bool causal = false;
};

/// 1 / sqrt(D), which may be known at run time only: Q is then scaled ahead.
Edge scaled(Call& c, Attention& a) {
    auto depth = Call::shape(a.q).back();
    if (a.scale == 0 && depth.constant()) a.scale = 1 / std::sqrt(static_cast<double>(*depth.constant()));
    if (a.scale != 0) return a.q;
    a.scale = 1;
    Formula f(c);
    auto root = f.apply("sqrt", {f.of(c.size_edge(Scalar::of_int(depth), Call::type_of(a.q)))});
    return f.finish(f.apply("div", {f.of(a.q), root}));
}

/// Lower triangle from the first position on, as torch has it; the kernel aligns the last positions.
Edge causal_mask(Call& c, DimExpr const& rows, DimExpr const& columns) {
    auto* row = c.reshape(c.range(0, 1, rows), {rows, DimExpr(1)});
    return c.binary(ExprOp::GreaterEqual, row, c.range(0, 1, columns));
}

Edge fused(Call& c, Attention const& a, Edge q) {
    auto target = Call::shape(q);
    target.back() = Call::shape(a.v).back();
    kernel::AttentionInfo info;
    info.scale = static_cast<float>(a.scale);
    info.causal = a.causal, info.has_mask = a.mask;
    std::vector<Edge> inputs{q, a.k, a.v};
    if (a.mask) inputs.push_back(a.mask);
    return c.emit(info, inputs, Call::type_of(q), std::move(target));
}

/// softmax(scale · Q Kᵀ + mask), and its product with V.
std::pair<Edge, Edge> composed(Call& c, Attention const& a, Edge q) {
    auto dtype = Call::type_of(q);
    auto last = Call::rank(a.k) - 1;
    auto* scores = c.matmul(q, c.swap_axes(a.k, last - 1, last));
    std::vector<Edge> inputs{scores};
    if (a.mask) inputs.push_back(a.mask);
    scores = c.map(inputs, [&](Expression& e, auto const& v) {
        auto x = e.binary(ExprOp::Mul, v[0], e.constant(dtype, a.scale));
        if (!a.mask) return x;
        if (e.dtype(v[1]) == DataType::Bool) return e.select(v[1], x, e.constant(dtype, -INFINITY));
        return e.binary(ExprOp::Add, x, e.cast(v[1], dtype));
    });
    auto* weights = c.softmax(scores, Call::rank(scores) - 1);
    return {c.matmul(weights, a.v), weights};
}

Edge attend(Call& c, Attention a, Edge* weights = nullptr) {
    auto* q = scaled(c, a);
    auto rows = Call::shape(q)[Call::rank(q) - 2], columns = Call::shape(a.k)[Call::rank(a.k) - 2];
    if (a.causal && rows != columns) a.mask = causal_mask(c, rows, columns), a.causal = false;
    bool whole =
        Call::rank(q) == 4 && Call::rank(a.k) == 4 && Call::rank(a.v) == 4 && Call::type_of(q) == DataType::F32;
    bool same_batch = whole && Call::shape(q)[0] == Call::shape(a.k)[0] && Call::shape(q)[1] == Call::shape(a.k)[1];
    bool plain_mask = !a.mask || Call::type_of(a.mask) == DataType::F32 || Call::type_of(a.mask) == DataType::Bool;
    if (same_batch && plain_mask && !weights) return fused(c, a, q);
    if (a.causal) a.mask = causal_mask(c, rows, columns);
    auto [y, scores] = composed(c, a, q);
    if (weights) *weights = scores;
    return y;
}

void build_attention(Call& c) {
    Attention a{c.tensor("query"), c.tensor("key"), c.tensor("value"), c.tensor_or_null("attn_mask")};
    if (c.number("dropout_p", 0) != 0) refuse_unsupported("dropout_p");
    if (a.mask && c.flag("is_causal", false)) refuse_invalid("both attn_mask and is_causal");
    for (auto* edge : {a.q, a.k, a.v}) c.expect_rank(edge, 2, 64, "an operand");
    a.scale = c.number("scale", 0), a.causal = c.flag("is_causal", false);
    if (c.flag("enable_gqa", false)) {
        auto rank = Call::rank(a.q);
        if (rank < 3) refuse_invalid("enable_gqa without heads");
        auto heads = Call::shape(a.q)[rank - 3];
        for (auto* edge : {&a.k, &a.v}) {
            // Each head of K and V serves a group of neighbouring heads of Q.
            auto shape = Call::shape(*edge);
            auto own = shape[rank - 3], group = floor_div(heads, own);
            auto spread = shape;
            spread.insert(spread.begin() + static_cast<std::ptrdiff_t>(rank - 2), group);
            shape[rank - 3] = own * group;
            *edge = c.reshape(c.expand(c.unsqueeze(*edge, rank - 2), spread), shape);
        }
    }
    c.set(attend(c, a));
}

/// Rows of the packed projection, or one of its own.
Edge projection(Call& c, Edge x, size_t part, DimExpr const& width) {
    static constexpr std::string_view kOwn[]{"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    bool packed = c.has("in_proj_weight");
    auto begin = width * static_cast<int64_t>(part);
    auto* weight = packed ? c.slice(c.tensor("in_proj_weight"), 0, begin, begin + width) : c.tensor(kOwn[part]);
    auto* bias = c.has("in_proj_bias") ? c.slice(c.tensor("in_proj_bias"), 0, begin, begin + width) : nullptr;
    return c.matmul(x, weight, true, bias);
}

/// A mask as something to add or a bool that is true where attention is allowed; torch has it the other way round.
Edge allowed(Call& c, Edge mask) { return Call::type_of(mask) == DataType::Bool ? c.unary(ExprOp::Not, mask) : mask; }

Edge head_mask(Call& c, DimExpr const& batch, DimExpr const& heads) {
    auto* mask = c.tensor_or_null("attn_mask");
    if (!mask) return nullptr;
    c.expect_rank(mask, 2, 3, "attn_mask");
    mask = allowed(c, mask);
    auto const& shape = Call::shape(mask);
    return shape.size() == 3 ? c.reshape(mask, {batch, heads, shape[1], shape[2]}) : mask;
}

/// Rows [B, T, E] of an input of nn.MultiheadAttention.
Edge rows_of(Call& c, Edge x, bool batch_first) {
    c.expect_rank(x, 2, 3, "an input");
    if (Call::rank(x) == 2) return c.unsqueeze(x, 0);
    return batch_first ? x : c.swap_axes(x, 0, 1);
}

/// Inputs are query, key and value; one stands for all, a second one for key and value.
void build_multihead(Call& c) {
    std::vector<Edge> inputs;
    // One input alone is called so.
    for (auto name : {"input", "query", "key", "value"})
        if (c.has(name)) inputs.push_back(c.tensor(name));
    if (inputs.empty()) refuse_invalid("there is no query");
    for (auto name : {"add_bias_kv", "add_zero_attn"})
        if (c.flag(name, false)) refuse_unsupported(name);
    bool batch_first = c.flag("batch_first", false), has_batch = Call::rank(inputs[0]) == 3;
    inputs.resize(3, inputs.back());
    for (auto& input : inputs) input = rows_of(c, input, batch_first);
    DimExpr width = c.integer("embed_dim"), heads = c.integer("num_heads");
    auto depth = floor_div(width, heads);
    if (c.integer("num_heads") < 1 || c.integer("embed_dim") % c.integer("num_heads"))
        refuse_invalid("embed_dim ", c.integer("embed_dim"), " is not divisible by num_heads ", c.integer("num_heads"));
    Edge parts[3];
    for (size_t i = 0; i < 3; ++i) {
        auto* rows = projection(c, inputs[i], i, width);
        auto const& shape = Call::shape(rows);
        parts[i] = c.transpose(c.reshape(rows, {shape[0], shape[1], heads, depth}), {0, 2, 1, 3});
    }
    auto batch = Call::shape(inputs[0])[0], positions = Call::shape(inputs[0])[1];
    Attention a{parts[0], parts[1], parts[2], head_mask(c, batch, heads)};
    Edge weights = nullptr;
    auto* y = attend(c, a, c.wants(1) ? &weights : nullptr);
    y = c.reshape(c.transpose(y, {0, 2, 1, 3}), {batch, positions, width});
    y = c.matmul(y, c.tensor("out_proj.weight"), true, c.tensor_or_null("out_proj.bias"));
    if (!has_batch)
        y = c.squeeze(y, 0);
    else if (!batch_first)
        y = c.swap_axes(y, 0, 1);
    c.set(y);
    if (!weights) return;
    // The second output is the mean over heads.
    auto* mean = c.reduce(ReduceKind::Mean, weights, {1}, false);
    c.set(1, has_batch ? mean : c.squeeze(mean, 0));
}

}  // namespace

void define_attention(Definitions& all) {
    all.push_back({"F.scaled_dot_product_attention aten::scaled_dot_product_attention",
                   "query key value attn_mask dropout_p is_causal | scale enable_gqa", build_attention});
    all.push_back(
        {"nn.MultiheadAttention",
         "query key value | input attn_mask in_proj_weight in_proj_bias q_proj_weight k_proj_weight v_proj_weight "
         "out_proj.weight out_proj.bias add_bias_kv add_zero_attn batch_first bias embed_dim kdim vdim "
         "num_heads bias_k bias_v dropout",
         build_multihead});
}

}  // namespace refactor::pnnx
