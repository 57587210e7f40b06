#pragma once
#include "operator_def.h"

/// What the attention operators of all domains are made of, as semantic operators that have fast kernels.
namespace refactor::onnx {

using Edge = frontend::LowerContext::Edge;

/// Which keys a query may see by their positions. Query i has the position `offset + i`, key j the position j.
struct Visibility {
    bool causal = false;            ///< none behind the query
    int64_t left = -1, right = -1;  ///< at most so far before and behind the query; -1: any
    DimExpr offset;
    Edge offsets = nullptr;  ///< i64 [B], instead of `offset`
    Edge lengths = nullptr;  ///< i64 [B]: keys from there on are padding
};

struct AttentionParts {
    Edge q, k, v;  ///< [B, H, S, D], [B, Hkv, T, D], [B, Hkv, T, Dv]
    float scale = 1, softcap = 0;
    Visibility visibility;
    Edge mask = nullptr;   ///< bool (true: may attend) or a float that is added; broadcasts to [B, H, S, T]
    Edge sinks = nullptr;  ///< [H]: one more score for each head, whose value is zero
};

/// What may be asked for of the scores [B, H, S, T].
enum class ScoreOutput : uint8_t { Product, Capped, Masked, Probabilities };

/// Emits the attention and returns Y [B, H, S, Dv] in the type of V; a query that sees no key yields zeros. f16 and
/// bf16 are computed in f32 and rounded once. `scores`, if not null, is set to what `wanted` says, in the type of Q.
Inferred<Edge> emit_attention(LowerContext&, AttentionParts const&, ScoreOutput wanted = {}, Edge* scores = nullptr);

/// What the positions forbid, but the causal rule only if `causal`; null: nothing. bool [S, T] or [B, 1, S, T].
Edge position_mask(LowerContext&, AttentionParts const&, bool causal);

/// [B, S, heads * D] to [B, heads, S, D] and back.
Edge split_heads(LowerContext&, Edge, int64_t heads);
Edge merge_heads(LowerContext&, Edge);
/// Joins along the axis of positions of [B, H, T, D].
Edge append_keys(LowerContext&, Edge past, Edge fresh);

struct Rotation {
    bool interleaved = false;
    int64_t size = 0;  ///< leading elements of a head that are rotated; 0: all
};
/// Rotates x [B, S, H, D] by angles whose cosines and sines are [B or 1, S, size / 2].
Edge emit_rotation(LowerContext&, Edge x, Edge cosines, Edge sines, Rotation const&);

/// An input of RotaryEmbedding: [B, S, H * D] if packed, else [B, H, S, D].
struct Rotated {
    DimExpr batch, length, heads, depth;
    Rotation rotation;
    bool packed = false;
};
/// The input rotated, in its own layout.
Edge emit_rotary(LowerContext&, Rotated const&, Edge x, Edge cosines, Edge sines);
/// Rows of a table [N, W] by their numbers.
Edge gather_rows(LowerContext&, Edge table, Edge rows);

/// `size` consecutive numbers from `start`, i64.
Edge emit_range(LowerContext&, DimExpr const& start, DimExpr const& size);
/// The part [start, start + size) of an axis.
Edge emit_slice(LowerContext&, Edge, size_t axis, DimExpr const& start, DimExpr const& size, int64_t step = 1);
/// `size` split by `heads`, or an error naming `role`.
Inferred<DimExpr> head_size(DimExpr const& size, int64_t heads, std::string_view role, SymbolTable const&);

}  // namespace refactor::onnx
