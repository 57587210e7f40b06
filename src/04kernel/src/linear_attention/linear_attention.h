#pragma once
#include "kernel/ops/cache.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Sizes of a linear attention, known when it is bound.
struct LinearAttentionShape {
    int64_t batch = 0, steps = 0, heads = 1, kv_heads = 1, depth = 0, value_depth = 0;
    int64_t decays = 0, betas = 0;                ///< last sizes of these inputs
    int past = -1, decay = -1, beta = -1, y = 3;  ///< numbers of the arguments; -1: absent

    /// Why the operands do not fit together, or empty.
    std::string init(LinearAttentionInfo const&, BindArgs const&);
    int64_t state_size() const { return depth * value_depth; }
    int64_t y_heads() const { return std::max(heads, kv_heads); }
    /// Results of a key head: one for each query head that shares it, or one alone.
    int64_t group() const { return std::max<int64_t>(1, heads / kv_heads); }
    /// Of a result's head.
    int64_t query_of(int64_t y_head) const { return y_head * heads / y_heads(); }
    double operations() const {
        return 2. * static_cast<double>(batch * steps * state_size()) *
               static_cast<double>(y_heads() + kv_heads * (1 + (decay >= 0) + (beta >= 0)));
    }
};

/// f32; states in L1, some columns of the values at a time.
MaybeKernel make_linear_attention_avx512(LinearAttentionInfo const&, Request const&);
MaybeKernel make_linear_attention_avx2(LinearAttentionInfo const&, Request const&);
/// Any float type, position after position; heads on different threads.
MaybeKernel make_linear_attention_reference(LinearAttentionInfo const&, Request const&);

/// Why operands are not floats of one type on a CPU, or empty.
std::string why_not_linear_attention(Request const&);

}  // namespace refactor::kernel
