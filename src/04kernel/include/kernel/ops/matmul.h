#pragma once
#include "kernel/epilogue.h"
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Matrix product with numpy broadcasting of leading dimensions: `Y = epilogue(alpha * scales * (op(A) · op(B)))`.
///
/// Inputs: A [..., M, K] ([..., K, M] if trans_a), B [..., K, N] ([..., N, K] if trans_b), scales f32 [N] if `scaled`,
/// bias [N] or [1] if `epilogue.bias`, residual [..., M, N] if `epilogue.residual` (absent inputs are left out, the
/// order stays). 1-D operands have been reshaped to 2-D by the caller. f32 (f64 and integers through the reference).
/// With A in f32, B may be f16, bf16 or, if `scaled`, i8: its elements are widened to f32, sums are f32. On a GPU B may
/// also be f8, and A f16 or bf16 with B of 8 bits. Source: ONNX MatMul-13, Gemm-13.
struct MatMulInfo {
    static constexpr char const* kType = "MatMul";
    bool trans_a = false, trans_b = false;
    bool scaled = false;
    /// f32 operands may be rounded to bf16, sums stay f32. A may be bf16 then, and Y, if there is no residual. CPU
    /// only.
    bool may_round = false;
    float alpha = 1;
    Epilogue epilogue;
    std::string attributes() const;
};
Candidates candidates(MatMulInfo const&, Request const&);

/// Rows, each times a matrix of its own among some: `Y[t] = X[t / share] · W[indices[t]] + bias[indices[t]]`, products
/// of routed experts.
///
/// Inputs: X with rows of K elements, W [E, K, N] ([E, N, K] if trans_w), indices i32 or i64, `share` for each row of X
/// behind each other (any whole number); negative ones count from the end, others out of range throw InvalidInput; bias
/// [E, N] (optional). Y has a row of N elements for each index. Only counts of X, indices, bias and Y matter. f32. CPU
/// only.
struct GatherMatMulInfo {
    static constexpr char const* kType = "GatherMatMul";
    bool trans_w = false;
    std::string attributes() const { return trans_w ? "T" : "N"; }
};
Candidates candidates(GatherMatMulInfo const&, Request const&);

/// A score to which so little is added has no weight beside any other.
inline constexpr float kHiddenBelow = -1e30F;

/// What becomes of the scores of keys at which a mask of floats is `kHiddenBelow` or less.
enum class HiddenKeys : uint8_t {
    Added,     ///< the mask is added to them, as everywhere
    Replaced,  ///< it takes their place, whatever they are
    Absent     ///< and their values do not count where they weigh nothing, whatever these are
};

/// Scaled dot-product attention, online softmax: `Y = softmax(cap(scale * Q · Kᵀ) + mask) · V`.
///
/// Inputs: Q [B, H, S, D], K [B, Hkv, T, D] ([B, Hkv, D, T] if k_transposed), V [B, Hkv, T, Dv], mask (optional) f32
/// additive or bool (true = attend), broadcastable to [B, H, S, T], sinks (optional) [H] in the type of Q. H is a
/// multiple of Hkv. Output [B, H, S, Dv]. A row whose scores are all -inf (or masked out) yields zeros if
/// `unseen_to_zero`, `nan_to_zero` or there are sinks, else NaN as softmax does. Keys that causality or a mask of bool
/// hides do not count, whatever K and V hold there; keys that a mask of floats hides from many rows may be left out.
/// Source: FlashAttention (arXiv 2205.14135) for the tiling; sinks: arXiv 2309.17453, one more score for each head
/// whose value is zero.
struct AttentionInfo {
    static constexpr char const* kType = "Attention";
    float scale = 1;
    float softcap = 0;    ///< above 0: a score s becomes softcap · tanh(s / softcap)
    bool causal = false;  ///< position s sees keys up to T - S + s
    bool has_mask = false, has_sinks = false;
    bool mask_repeats = false;  ///< the mask is of n batches: batch b has that of b mod n. CPU only.
    bool k_transposed = false;
    bool unseen_to_zero = false;
    bool nan_to_zero = false;  ///< weights that are NaN are 0: rows with a score that is NaN or infinite yield zeros
    HiddenKeys hidden = HiddenKeys::Added;
    /// Q, K, V and Y are places in tensors of any shape, told by the params: batch, heads, heads of K, queries, keys,
    /// depth, depth of V; then for each of the four its first element and the steps between batches, heads and rows
    /// (positions; of transposed K: depths). Elements of a row are contiguous. CPU only.
    bool views = false;
    /// f32 operands may be rounded to bf16, weights of keys too; sums stay f32. Q, K and V may be bf16 then, and Y. CPU
    /// only.
    bool may_round = false;
    std::string attributes() const;
};
inline constexpr size_t kAttentionViewParams = 7 + 4 * 4;
Candidates candidates(AttentionInfo const&, Request const&);

}  // namespace refactor::kernel
