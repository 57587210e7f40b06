#pragma once
#include "kernel/ops/trees.h"

namespace refactor::kernel {

/// Moves `at[i]` from a root to a leaf for all lanes at once. Lane i reads the key of a feature at `keys[feature + i]`,
/// or all of them that of lane 0 where `kOneRow`.
template <bool kOneRow, class Key>
inline void walk(TreeNode<Key> const* nodes, Key const* keys, uint32_t (&at)[kTreeLanes]) {
    uint32_t now[kTreeLanes], moved;
    for (int i = 0; i < kTreeLanes; ++i) now[i] = at[i];
    do {
        moved = 0;
#pragma GCC unroll 8
        for (int i = 0; i < kTreeLanes; ++i) {
            auto const& node = nodes[now[i]];
            auto key = keys[size_t{node.feature} + (kOneRow ? 0 : static_cast<size_t>(i))];
            auto next = node.base + static_cast<uint32_t>(static_cast<Key>(key - node.low) <= node.span);
            moved |= next ^ now[i];
            now[i] = next;
        }
    } while (moved);
    for (int i = 0; i < kTreeLanes; ++i) at[i] = now[i];
}

}  // namespace refactor::kernel
