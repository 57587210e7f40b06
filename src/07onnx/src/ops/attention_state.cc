#include "computation/operator.h"
#include "contrib_parts.h"
#include "kernel/ops/cache.h"

#include <cmath>

// What keeps a state between calls: LinearAttention of ai.onnx and com.microsoft, and TensorScatter.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;

constexpr int64_t kLinearAttention = 27;  ///< the opset of ai.onnx that it came with

Inferred<kernel::LinearAttentionInfo> linear_of(InferContext const& c, NodeView const& n) {
    auto rule = n.text("update_rule", "gated_delta");
    bool known = rule == "linear" || rule == "gated" || rule == "delta" || rule == "gated_delta";
    if (!known) return Err{invalid("update_rule is \"", rule, "\", expected linear, gated, delta or gated_delta")};
    kernel::LinearAttentionInfo info;
    info.decay = rule.starts_with("gated"), info.delta = rule.ends_with("delta"), info.past = c.has(3);
    if (info.decay != c.has(4)) return Err{invalid("the rule ", rule, info.decay ? " needs" : " takes no", " decay")};
    if (info.delta != c.has(5)) return Err{invalid("the rule ", rule, info.delta ? " needs" : " takes no", " beta")};
    info.heads = n.integer("q_num_heads", 0), info.kv_heads = n.integer("kv_num_heads", 0);
    // That of com.microsoft, in version 1, may have more key heads than query heads.
    bool may_share_queries = n.opset < kLinearAttention;
    if (info.heads < 1 || info.kv_heads < 1 ||
        (info.heads % info.kv_heads && (!may_share_queries || info.kv_heads % info.heads)))
        return Err{invalid("q_num_heads is ", info.heads, ", expected a multiple of kv_num_heads, ", info.kv_heads)};
    if (auto window = n.integer("state_window", 0)) return Err{unsupported("state_window = ", window)};
    return info;
}

Status infer_linear_attention(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, linear_of(c, n));
    for (size_t i = 0; i < 6; ++i)
        if (c.has(i) && i != 3) RG_CHECK_STATUS(expect_rank(c.input(i), 3, 3));
    auto const& q = c.shape(0);
    RG_TRY_STATUS(depth, head_size(q[2], info.heads, "query", c.symbols()));
    RG_TRY_STATUS(value_depth, head_size(c.shape(2)[2], info.kv_heads, "value", c.symbols()));
    auto expect = [&](size_t i, std::string_view what, Shape const& expected) -> Status {
        for (size_t k = 0; k < expected.size(); ++k)
            RG_CHECK_STATUS(c.expect_equal(c.shape(i)[k], expected[k], frontend::concat("size ", k, " of ", what)));
        return std::nullopt;
    };
    RG_CHECK_STATUS(expect(1, "key", {q[0], q[1], depth * info.kv_heads}));
    RG_CHECK_STATUS(expect(2, "value", {q[0], q[1]}));
    Shape state{q[0], DimExpr(info.kv_heads), depth, value_depth};
    if (c.has(3)) {
        RG_CHECK_STATUS(expect_rank(c.input(3), 4, 4));
        RG_CHECK_STATUS(expect(3, "past_state", state));
    }
    for (size_t i = 4; i < 6; ++i) {
        if (!c.has(i)) continue;
        RG_CHECK_STATUS(expect(i, i == 4 ? "decay" : "beta", {q[0], q[1]}));
        auto const& last = c.shape(i)[2];
        auto other = i == 4 ? depth * info.kv_heads : DimExpr(1);
        if (!(last == DimExpr(info.kv_heads) || last == other))
            return invalid("the last size of ", i == 4 ? "decay" : "beta", " is ", c.text(last), ", expected ",
                           info.kv_heads, " or ", c.text(other));
    }
    if (n.number("scale", 0) == 0 && !depth.constant()) return unsupported("heads of a size that is not known");
    RG_CHECK_STATUS(c.set(0, c.dtype(0), {q[0], q[1], value_depth * std::max(info.heads, info.kv_heads)}));
    return c.set(1, c.has(3) ? c.dtype(3) : c.dtype(0), state);
}

Status lower_linear_attention(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, linear_of(c.view(), n));
    auto depth = floor_div(c.shape(0)[2], info.heads);
    info.scale = n.number("scale", 0);
    if (info.scale == 0) info.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(*depth.constant())));
    // A state of another type than the rest: everything in f32.
    auto dtype = c.has(3) && c.dtype(3) != c.dtype(0) ? DataType::F32 : c.dtype(0);
    std::vector<Edge> edges;
    for (size_t i = 0; i < c.input_count(); ++i)
        if (c.has(i)) edges.push_back(c.cast(c.edge(i), dtype));
    auto state_type = c.has(3) ? c.dtype(3) : c.dtype(0);
    Shape state{c.shape(0)[0], DimExpr(info.kv_heads), depth, floor_div(c.shape(2)[2], info.kv_heads)};
    auto results = c.emit_all(computation::make_operator(info), edges, {{dtype, *c.output().shape}, {dtype, state}});
    c.set_output(0, c.cast(results[0], c.output().dtype));
    if (c.output_count() > 1) c.set_output(1, c.cast(results[1], state_type));
    return std::nullopt;
}

Inferred<kernel::TensorScatterInfo> scatter_of(InferContext const& c, NodeView const& n) {
    auto mode = n.text("mode", "linear");
    if (mode != "linear" && mode != "circular")
        return Err{invalid("mode is \"", mode, "\", expected linear or circular")};
    RG_TRY(axis, frontend::normalize_axis(n.integer("axis", -2), c.shape(0).size()));
    if (axis == 0) return Err{invalid("the axis is that of the batch, expected another")};
    return kernel::TensorScatterInfo{static_cast<int64_t>(axis), mode == "circular", c.has(2)};
}

Status infer_tensor_scatter(InferContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, scatter_of(c, n));
    auto const &cache = c.shape(0), &update = c.shape(1);
    RG_CHECK_STATUS(expect_rank(c.input(1), cache.size(), cache.size()));
    for (size_t i = 0; i < cache.size(); ++i) {
        if (static_cast<int64_t>(i) != info.axis) {
            RG_CHECK_STATUS(c.expect_equal(update[i], cache[i], frontend::concat("size ", i, " of the update")));
        } else if (auto rows = update[i].constant(), most = cache[i].constant(); rows && most && *rows > *most) {
            return invalid("the update has ", *rows, " rows, the cache ", *most);
        }
    }
    if (c.has(2)) {
        RG_CHECK_STATUS(expect_rank(c.input(2), 1, 1));
        RG_CHECK_STATUS(c.expect_equal(c.shape(2)[0], cache[0], "the number of write_indices"));
    }
    return c.set(0, c.dtype(0), cache);
}

Status lower_tensor_scatter(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(info, scatter_of(c.view(), n));
    std::vector<Edge> edges{c.edge(0), c.edge(1)};
    if (c.has(2)) edges.push_back(c.edge(2));
    c.emit_output(computation::make_operator(info), edges);
    return std::nullopt;
}

}  // namespace

void define_attention_state(Definitions& all) {
    using K = AttributeKind;
    OperatorDef linear{
        .name = "LinearAttention",
        .since = kLinearAttention,
        .inputs = {3, 6},
        .outputs = {1, 2},
        .types = {{kFloats, 'T'}, {kFloats, 'T'}, {kFloats, 'T'}, {kFloats, 'S'}, {kFloats, 'T'}, {kFloats, 'T'}},
        .attributes = {{"chunk_size", K::Int},
                       {"kv_num_heads", K::Int, true},
                       {"q_num_heads", K::Int, true},
                       {"scale", K::Float},
                       {"update_rule", K::String}},
        .infer = infer_linear_attention,
        .lower = lower_linear_attention};
    all.push_back(linear);
    linear.since = 1, linear.domain = kContribDomain;
    linear.attributes.push_back({"state_window", K::Int});
    all.push_back(std::move(linear));
    all.push_back({.name = "TensorScatter",
                   .since = 24,
                   .inputs = {2, 3},
                   .types = {{kAny, 'T'}, {kAny, 'T'}, {kI64}},
                   .attributes = {{"axis", K::Int}, {"mode", K::String}},
                   .infer = infer_tensor_scatter,
                   .lower = lower_tensor_scatter});
}

}  // namespace refactor::onnx
