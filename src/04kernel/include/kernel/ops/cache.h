#pragma once
#include "kernel/ops/matmul.h"

namespace refactor::kernel {

/// Writes rows into a cache: inputs cache [B, …, M, …], update of the same shape but for S at `axis` (not 0), and, if
/// `indices`, i64 [B], where the rows of each batch begin (0 without). Output [B, …, N, …], N ≥ M and S: the cache,
/// zeros behind it, and the rows written over both. A row behind the end throws InvalidInput, or begins anew at 0 if
/// `circular`. Any fixed-size dtype of at least one byte. Source: ONNX TensorScatter-24 (where N = M).
struct TensorScatterInfo {
    static constexpr char const* kType = "TensorScatter";
    int64_t axis = 1;
    bool circular = false, indices = false;
    std::string attributes() const;
};
Candidates candidates(TensorScatterInfo const&, Request const&);

/// Queries of a step of decoding, and keys that it adds to its caches, at most.
inline constexpr int64_t kFewQueries = 8;

/// Attention whose keys and values are joined on the way: K is past K [B, Hkv, P, D] and new K [B, Hkv, N, D] behind
/// it, V likewise.
///
/// Inputs: Q as that of Attention (with `attention.views` the places of K and V are those in the joined tensors), past
/// K, new K, past V, new V, then mask and sinks as those of Attention. Outputs: Y, present K, present V: the joined
/// tensors. f32, f16 and bf16: Y and sinks have the type of Q, all others any of them. K is not transposed. On a GPU
/// only.
struct CachedAttentionInfo {
    static constexpr char const* kType = "CachedAttention";
    AttentionInfo attention;
    std::string attributes() const { return attention.attributes(); }
};
Candidates candidates(CachedAttentionInfo const&, Request const&);

/// Linear attention as a recurrence over the positions t with a state S [D, Dv] for each key head:
/// S *= exp(decay_t), v_t = beta_t (v_t - Sᵀ k_t) if `delta`, S += k_t v_tᵀ, y_t = scale Sᵀ q_t.
///
/// Inputs: q [B, T, H·D], k [B, T, Hkv·D], v [B, T, Hkv·Dv], then those that are there: past state [B, Hkv, D, Dv],
/// decay [B, T, Hkv·D] or [B, T, Hkv] (if `decay`), beta [B, T, Hkv] or [B, T, 1] (if `delta`). Outputs: y [B, T,
/// max(H, Hkv)·Dv] and the last state. One of H and Hkv is a multiple of the other (on a GPU H of Hkv). Any float type;
/// f64 is computed in f64, the others in f32. Source: ONNX LinearAttention-27, com.microsoft LinearAttention-1.
struct LinearAttentionInfo {
    static constexpr char const* kType = "LinearAttention";
    int64_t heads = 1, kv_heads = 1;
    float scale = 1;
    bool past = false, decay = false, delta = false;
    std::string attributes() const;
};
Candidates candidates(LinearAttentionInfo const&, Request const&);

}  // namespace refactor::kernel
