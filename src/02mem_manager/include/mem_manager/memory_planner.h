#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refactor::mem_manager {

/// Problem: blocks of known size, each in use during an interval of steps, are to be placed in one arena so that blocks
/// in use at the same time do not overlap and the arena is small. Optimal placement is NP-hard (dynamic storage
/// allocation); sizes and intervals are known, so a greedy order with best-fit gaps comes within a few per cent of the
/// lower bound.
///
/// Example: three steps, x → a → b → y with 64-byte tensors. a is in use during steps 0–1, b during 1–2:
///     Lifetime lives[] = {{64, 0, 1}, {64, 1, 2}};
///     auto plan = plan_memory(lives);      // offsets {0, 64}, peak_bytes 128 == lower_bound
/// and if step 1 may write over its input: lives[1].reuse = 0 → offsets {0, 0}, peak_bytes 64.
struct Lifetime {
    size_t bytes = 0;
    uint32_t first_step = 0, last_step = 0;  ///< both inclusive
    /// An earlier block whose last step is this block's first and whose memory it may take over (same or smaller size
    /// needed), or `kNoReuse`.
    uint32_t reuse = UINT32_MAX;
};
inline constexpr uint32_t kNoReuse = UINT32_MAX;

struct MemoryPlan {
    std::vector<size_t> offsets;  ///< of each block, multiples of 64
    size_t peak_bytes = 0;        ///< size of the arena
    size_t lower_bound =
        0;  ///< largest sum of live (64-byte rounded) blocks at any step, a taken-over block counted once
};

MemoryPlan plan_memory(std::span<Lifetime const> lifetimes);

}  // namespace refactor::mem_manager
