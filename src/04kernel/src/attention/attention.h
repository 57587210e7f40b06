#pragma once
#include "kernel/ops/matmul.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Where an operand lies in its tensor, in elements.
struct AttentionPlace {
    int64_t first = 0, batch = 0, head = 0, row = 0;  ///< the first element, and steps

    int64_t at(int64_t b, int64_t h) const { return first + b * batch + h * head; }
};

/// Sizes of one attention, where its operands lie and the steps of its mask in elements (0 where broadcast).
struct AttentionShape {
    int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, depth = 0, value_depth = 0;
    AttentionPlace q, k, v, y;
    int64_t mask_step[4] = {0, 0, 0, 0};  ///< batch, head, query, key
    int64_t mask_batches = 1;             ///< behind which those of the mask repeat
    bool bool_mask = false;

    /// Why the operands do not fit together, or empty.
    std::string init(AttentionInfo const&, BindArgs const&);
    /// Keys that query `s` may see.
    int64_t visible(AttentionInfo const& info, int64_t s) const {
        return info.causal ? std::max<int64_t>(0, std::min(keys, keys - queries + s + 1)) : keys;
    }
    /// Where the mask has what it says of the first key.
    int64_t mask_at(int64_t b, int64_t head, int64_t query) const {
        return b % mask_batches * mask_step[0] + head * mask_step[1] + query * mask_step[2];
    }
    /// A mask takes the place of the scores that it hides.
    bool hides(AttentionInfo const& info) const { return bool_mask || info.hidden != HiddenKeys::Added; }
    /// Values of keys that a mask hides do not count, whatever they are.
    bool leaves_out(AttentionInfo const& info) const { return bool_mask || info.hidden == HiddenKeys::Absent; }
    double operations() const {
        return 2. * static_cast<double>(batch * heads * queries) * static_cast<double>(keys) *
               static_cast<double>(depth + value_depth);
    }

private:
    std::string init_tensors(AttentionInfo const&, BindArgs const&);
    std::string init_views(AttentionInfo const&, BindArgs const&);
    std::string init_mask(TensorDesc const& mask, bool repeats);
};

// Estimates are ns, fitted to times on Zen 4 (`attention_bench`, one thread, no masks): of 225 shapes of 20 to 1,000
// queries, and of 140 of 1 to 12, with 1 to 144 keys and depths of 16 to 128. What masks cost was taken from a few.
constexpr int64_t vectors_of(int64_t n, int width) { return (n + width - 1) / width; }
/// What a vector of `width` floats takes beside one of 16.
constexpr double vector_time(int width) { return width == 16 ? 1 : 0.6; }

/// f32 with a mask of f32 or bool: blocks of queries against blocks of keys, online softmax.
MaybeKernel make_attention_avx512(AttentionInfo const&, Request const&);
MaybeKernel make_attention_avx2(AttentionInfo const&, Request const&);
/// f32 with few keys, a mask of bool or one that is added, and no caps: blocks of queries in the lanes of vectors.
MaybeKernel make_attention_few_keys_avx512(AttentionInfo const&, Request const&);
MaybeKernel make_attention_few_keys_avx2(AttentionInfo const&, Request const&);
/// As the tiled ones, with queries, keys, values and weights rounded to bf16 where rows share packed keys, if
/// `may_round`; Q, K and V may be bf16, and Y.
MaybeKernel make_attention_rounded_avx512amx(AttentionInfo const&, Request const&);
MaybeKernel make_attention_rounded_avx512bf16(AttentionInfo const&, Request const&);
/// f32, f64, f16 and bf16; computes in f64.
MaybeKernel make_attention_reference(AttentionInfo const&, Request const&);

}  // namespace refactor::kernel
