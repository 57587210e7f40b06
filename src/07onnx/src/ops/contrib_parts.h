#pragma once
#include "attention_parts.h"

/// What the attention operators of com.microsoft share.
namespace refactor::onnx {

inline constexpr std::string_view kContribDomain = "com.microsoft";

/// x + other, in the shape of x.
Edge add_edges(LowerContext&, Edge x, Edge other);
/// Whether output `i` is there.
bool asks_for(LowerContext const&, size_t i);
/// The attribute `scale`, or 1 / sqrt(depth).
Inferred<float> scale_of(NodeView const&, DimExpr const& depth);
/// Refuses an integer mask (input `mask`) or a bias (input `bias`) that does not fit scores of this shape.
Status check_masks(InferContext&, size_t mask, size_t bias, Shape const& scores);
/// Sets the mask of `p` from an integer mask and a bias that is added.
Status set_masks(LowerContext&, NodeView const&, size_t mask, size_t bias, AttentionParts& p);

}  // namespace refactor::onnx
