#pragma once
#include "graph_topo/graph_topo.h"

#include <vector>

namespace refactor::graph_topo::detail {

/// A topological order of the nodes `0 … n-1`, each with a row of the nodes it depends on (`kNoNode` entries are
/// skipped): nodes stay in ascending order, except that a node's later-numbered dependencies are moved to just before
/// it. O(V + E), not recursive. On a cycle the order is incomplete (smaller than the number of nodes).
std::vector<NodeIdx> stable_order(Rows<NodeIdx> const& dependencies);

/// One cycle of every strongly connected component that has one, in the direction from dependency to dependent. O(V +
/// E), not recursive.
std::vector<std::vector<NodeIdx>> find_cycles(Rows<NodeIdx> const& dependencies);

}  // namespace refactor::graph_topo::detail
