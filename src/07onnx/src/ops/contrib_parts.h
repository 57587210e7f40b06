#pragma once
#include "attention_parts.h"
#include "kernel/ops/elementwise.h"

/// What the attention operators of com.microsoft share.
namespace refactor::onnx {

inline constexpr std::string_view kContribDomain = "com.microsoft";

/// x + other, in the shape of x.
Edge add_edges(LowerContext&, Edge x, Edge other);
/// Whether output `i` is there.
bool asks_for(LowerContext const&, size_t i);
/// a + b of positions, i64.
Edge add_indices(LowerContext&, Edge a, Edge b, Shape shape);
/// The attribute `scale`, or 1 / sqrt(depth).
Inferred<float> scale_of(NodeView const&, DimExpr const& depth);

/// How GroupQueryAttention keeps its keys or values.
struct CacheFormat {
    int64_t bits = 0;          ///< of the signed integers, 8 or 4 (u8, low half first, moved by 8); 0: as the inputs
    bool per_channel = false;  ///< one scale for each head and element of it, else one for all
    /// Its type where the inputs have `dtype`, and how many of its elements hold `depth` numbers.
    DataType dtype(DataType inputs) const { return !bits ? inputs : bits == 8 ? DataType::I8 : DataType::U8; }
    DimExpr width(DimExpr const& depth) const { return bits == 4 ? floor_div(depth, 2) : depth; }
};
/// The attributes `k_quant_type` or `v_quant_type`, and `kv_cache_bit_width`.
Inferred<CacheFormat> cache_format(NodeView const&, std::string_view attribute);
/// x [B, H, T, D] into the format and back into `dtype`; `scale` is f32.
Edge to_cache(LowerContext&, CacheFormat, Edge x, Edge scale);
Edge from_cache(LowerContext&, CacheFormat, Edge x, Edge scale, DataType dtype);

/// How caches of GroupQueryAttention move on that hold the last positions alone: the first rows, in order. With the
/// capacity C, a window of W and G = C - W + 1, T positions leave T - G · ceil(max(T - C, 0) / G) behind.
struct WindowStep {
    Edge moved;    ///< i64 [B]: first row that is kept while fresh ones are read, 1 of a full cache
    Edge held;     ///< i64 [B]: rows from there on, behind which the fresh ones go
    Edge dropped;  ///< i64 [B]: how many of held and fresh rows leave in front
};
/// `lengths`: i32 [B], all positions but one; `queries` of them are fresh.
WindowStep window_step(LowerContext&, DimExpr const& capacity, int64_t window, DimExpr const& queries, Edge lengths);
/// `count` rows of x [B, H, T, D] from `first`, i64 [B], on; its last row instead of those behind.
Edge take_rows(LowerContext&, Edge x, Edge first, DimExpr const& count);

/// An activation that a fused operator names in `activation`, with the defaults of its parameters.
struct NamedActivation {
    std::string_view name;
    kernel::ExprOp op;
    float alpha = 0, beta = 0;
};
/// Null for a name that is not known, and for none.
NamedActivation const* activation_of(NodeView const&);

/// Refuses an integer mask (input `mask`) or a bias (input `bias`) that does not fit scores of this shape.
Status check_masks(InferContext&, size_t mask, size_t bias, Shape const& scores);
/// Sets the mask of `p` from an integer mask and a bias that is added.
Status set_masks(LowerContext&, NodeView const&, size_t mask, size_t bias, AttentionParts& p);

}  // namespace refactor::onnx
