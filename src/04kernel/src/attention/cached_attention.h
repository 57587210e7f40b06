#pragma once
#include "attention/attention.h"
#include "kernel/ops/cache.h"

namespace refactor::kernel {

/// The operands of a `CachedAttentionInfo` and, as if caches were joined before it, those of its attention.
class JoinedCaches {
    TensorDesc k_, v_;
    SmallVector<TensorDesc const*, 5> inputs_;
    BindArgs const& args_;

public:
    static constexpr size_t kPastK = 1, kNewK = 2, kPastV = 3, kNewV = 4, kMask = 5;  ///< inputs
    static constexpr size_t kPresentK = 1, kPresentV = 2;                             ///< outputs

    /// `args` must outlive it.
    explicit JoinedCaches(BindArgs const& args);
    JoinedCaches(JoinedCaches const&) = delete;
    JoinedCaches& operator=(JoinedCaches const&) = delete;

    /// Why pieces and present caches do not fit together, or empty.
    std::string problem() const;
    /// K and V have the type of Q.
    BindArgs attention() const { return {inputs_, args_.outputs.first(1), args_.params, args_.packs, args_.threads}; }
    TensorDesc const& k() const { return k_; }
    TensorDesc const& v() const { return v_; }
    int64_t past_keys() const { return args_.inputs[kPastK]->dims[2]; }
    int64_t new_keys() const { return args_.inputs[kNewK]->dims[2]; }
    /// Of all caches, past, new and present.
    int64_t bytes() const;
};

}  // namespace refactor::kernel
