#pragma once
#include "common/thread_pool.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel::movement {

/// Cuts `count` items of about `ns` each into equal ranges that are worth handing to threads: `body(begin, end)`.
template <class F>
void for_ranges(ThreadPool& pool, int64_t count, double ns, F&& body) {
    if (count <= 0) return;
    auto chunks = chunks_of(count, ns, pool.threads());
    pool.parallel_for(chunks, [&](int64_t i, int) { body(count * i / chunks, count * (i + 1) / chunks); });
}

}  // namespace refactor::kernel::movement
