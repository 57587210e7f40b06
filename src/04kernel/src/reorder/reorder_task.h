#pragma once
#include "common/thread_pool.h"
#include "kernel/kernel.h"
#include "reorder/transpose_blocks.h"

namespace refactor::kernel {

/// A whole tensor between the Plain and a blocked layout, 4 bytes an element.
struct TensorReorder {
    ReorderIsa const* isa = nullptr;
    bool to_blocked = true;
    int64_t images = 0, channels = 0, positions = 0;

    TensorReorder() = default;
    /// `desc` gives the sizes; its layout is ignored.
    TensorReorder(ReorderIsa const&, bool to_blocked, TensorDesc const& desc);
    void run(void const* x, void* y, ThreadPool&) const;
};

}  // namespace refactor::kernel
