#pragma once
#include "kernel/ops/trees.h"

namespace refactor::kernel {

/// Moves `at[i]` from a root to a leaf for all lanes at once; `key_of(i, feature)` is the key that lane i compares.
template <class Key, class KeyOf>
inline void walk(TreeNode<Key> const* nodes, KeyOf&& key_of, uint32_t (&at)[kTreeLanes]) {
    uint32_t now[kTreeLanes], moved;
    for (int i = 0; i < kTreeLanes; ++i) now[i] = at[i];
    do {
        moved = 0;
#pragma GCC unroll 8
        for (int i = 0; i < kTreeLanes; ++i) {
            auto const& node = nodes[now[i]];
            auto next =
                node.base + static_cast<uint32_t>(static_cast<Key>(key_of(i, node.feature) - node.low) <= node.span);
            moved |= next ^ now[i];
            now[i] = next;
        }
    } while (moved);
    for (int i = 0; i < kTreeLanes; ++i) at[i] = now[i];
}

}  // namespace refactor::kernel
