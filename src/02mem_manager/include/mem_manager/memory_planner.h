#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace refactor::mem_manager {

/// Problem: blocks of known size, each in use during an interval of steps, are to be placed in one arena so that blocks
/// in use at the same time do not overlap and the arena is small. Optimal placement is NP-hard (dynamic storage
/// allocation), but sizes and intervals are known ahead, so a greedy order with best-fit gaps comes within a few per
/// cent of the lower bound.
///
/// A `Lifetime` describes one block and is the caller's; `plan_memory` reads it once and keeps nothing. A `MemoryPlan`
/// is the answer: plain numbers, the same for the same lifetimes.
///
/// Example: two steps, x → a → y, where a is in use during steps 0–1 and step 1 makes b from it:
///
///     Lifetime lives[] = {{64, 0, 1}, {64, 1, 2}};
///     auto plan = plan_memory(lives);  // offsets {0, 64}, peak_bytes 128 == lower_bound
///
/// and if step 1 may write over its input: `lives[1].reuse = 0` gives offsets {0, 0}, peak_bytes 64. If step 1 only
/// renames its input (a reshape), `lives[1].alias = 0` gives the same whatever the steps are.
inline constexpr uint32_t kNoReuse = UINT32_MAX;
inline constexpr uint32_t kNoAlias = UINT32_MAX;

struct Lifetime {
    size_t bytes = 0;
    uint32_t first_step = 0, last_step = 0;  ///< both inclusive
    /// An earlier block whose memory this one may take over if that is no longer needed after this block's first step,
    /// or `kNoReuse`. Taken over or not is the planner's choice; a block is taken over once.
    uint32_t reuse = kNoReuse;
    /// The block, earlier or later, of which this one is another name: both lie at the same offset for the union of
    /// their lifetimes. Chains are followed; `reuse` of an alias is ignored. Or `kNoAlias`.
    uint32_t alias = kNoAlias;
};

struct MemoryPlan {
    std::vector<size_t> offsets;  ///< of each block, multiples of 64
    size_t peak_bytes = 0;        ///< size of the arena
    /// Largest sum, over the steps, of the blocks in use (rounded to 64 bytes), blocks that share memory counted once.
    size_t lower_bound = 0;
};

/// Throws `InternalError` if a lifetime ends before it starts, or names a block that does not exist or itself.
MemoryPlan plan_memory(std::span<Lifetime const> lifetimes);

}  // namespace refactor::mem_manager
