#include "reorder/reorder_task.h"

#include "conv/geometry.h"

#include <algorithm>

namespace refactor::kernel {

template <class T>
TensorReorderOf<T>::TensorReorderOf(ReorderIsaOf<T> const& isa_, bool to_blocked_, TensorDesc const& desc)
    : isa(&isa_), to_blocked(to_blocked_) {
    images = desc.dims[0], channels = desc.dims[1], positions = Addressing(desc).spatial;
}

template <class T>
void TensorReorderOf<T>::run(void const* x, void* y, ThreadPool& pool) const {
    // 64 KiB to 128 KiB a task.
    constexpr int64_t kPositions = 1024;
    int64_t block = isa->block, blocks = (channels + block - 1) / block;
    auto parts = (positions + kPositions - 1) / kPositions;
    auto* plain = static_cast<float*>(to_blocked ? const_cast<void*>(x) : y);
    auto* blocked = static_cast<T*>(to_blocked ? y : const_cast<void*>(x));
    pool.parallel_for(images * blocks * parts, [&](int64_t task, int) {
        auto first = task % parts * kPositions, b = task / parts % blocks, n = task / parts / blocks;
        BlockTransposeOf<T> job{plain + (n * channels + b * block) * positions + first, positions,
                                blocked + ((n * blocks + b) * positions + first) * block,
                                std::min(kPositions, positions - first),
                                static_cast<int32_t>(std::min<int64_t>(block, channels - b * block))};
        (to_blocked ? isa->to_blocked : isa->to_plain)(job);
    });
}

template struct TensorReorderOf<float>;
template struct TensorReorderOf<uint16_t>;

}  // namespace refactor::kernel
