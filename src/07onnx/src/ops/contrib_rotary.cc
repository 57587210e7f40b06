#include "contrib_parts.h"

// RotaryEmbedding of com.microsoft. Source: onnxruntime, docs/ContribOperators.md and the CPU kernel.

namespace refactor::onnx {

namespace {

using frontend::expect_equal;
using frontend::expect_rank;

Inferred<Rotated> rotary_of(InferContext const& c, NodeView const& n, SymbolTable const& symbols) {
    auto const& x = c.shape(0);
    if (n.integer("is_packed_batching", 0) != 0) return Err{unsupported("is_packed_batching")};
    if (n.number("scale", 1) != 1) return Err{unsupported("scale = ", n.number("scale", 1))};
    if (x.size() != 3 && x.size() != 4) return Err{invalid("the input has ", x.size(), " axes, expected 3 or 4")};
    for (size_t i = 2; i < 4; ++i)
        if (c.shape(i).size() != 2) return Err{invalid("a cache has ", c.shape(i).size(), " axes, expected 2")};
    Rotated r;
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
        RG_CHECK_STATUS(c.expect_equal(positions[0], 1, "the number of positions"));
    } else {
        RG_CHECK_STATUS(c.expect_equal(positions[0], r.batch, "the batch of position_ids"));
        RG_CHECK_STATUS(c.expect_equal(positions[1], r.length, "the length of position_ids"));
    }
    return c.set(0, c.dtype(0), c.shape(0));
}

Status lower_rotary(LowerContext& c, NodeView const& n) {
    RG_TRY_STATUS(r, rotary_of(c.view(), n, c.symbols()));
    auto* positions = c.edge(1);
    if (c.shape(1).size() == 1) {
        auto* steps = emit_range(c, 0, r.length);
        positions = c.reshape(add_indices(c, steps, positions, {r.length}), {DimExpr(1), r.length});
    }
    auto *cos = gather_rows(c, c.edge(2), positions), *sin = gather_rows(c, c.edge(3), positions);
    c.set_output(0, emit_rotary(c, r, c.edge(0), cos, sin));
    return std::nullopt;
}

}  // namespace

void define_contrib_rotary(Definitions& all) {
    using K = AttributeKind;
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
}

}  // namespace refactor::onnx
