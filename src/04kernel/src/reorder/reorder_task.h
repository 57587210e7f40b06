#pragma once
#include "common/thread_pool.h"
#include "kernel/kernel.h"
#include "reorder/transpose_blocks.h"

namespace refactor::kernel {

/// A whole tensor between the Plain layout, 4 bytes an element, and a blocked one.
template <class T>
struct TensorReorderOf {
    ReorderIsaOf<T> const* isa = nullptr;
    bool to_blocked = true;
    int64_t images = 0, channels = 0, positions = 0;

    TensorReorderOf() = default;
    /// `desc` gives the sizes; its layout is ignored.
    TensorReorderOf(ReorderIsaOf<T> const&, bool to_blocked, TensorDesc const& desc);
    void run(void const* x, void* y, ThreadPool&) const;
};
using TensorReorder = TensorReorderOf<float>;

}  // namespace refactor::kernel
