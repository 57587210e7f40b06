#pragma once
#include "graph_topo/graph_topo.h"

#include <span>
#include <vector>

namespace refactor::graph_topo {

/// A graph cut into parts of one colour each, numbered in an order in which they can run one after the other: every
/// edge between parts goes from a lower to a higher number, so each part is convex and the graph of parts has no cycle.
struct Partitioning {
    std::vector<uint32_t> part_of;  ///< by node
    std::vector<uint32_t> colours;  ///< by part
    Rows<NodeIdx> parts;            ///< nodes by part, ascending

    size_t size() const { return colours.size(); }
};

/// Cuts so that neighbouring parts in running order differ in colour, with as few parts as a greedy order reaches (the
/// fewest possible for two colours). `colours` has one small number (a target) for each node. O(colours · (V + E));
/// deterministic.
///
/// A rule that only asks whether two nodes of a colour have a common ancestor of that colour is not enough: in `y0(Y) →
/// a(X) → b(Y) → d(X)` with a residual edge `a → d`, joining `a` and `d` would make a cycle through `b`. Here `{y0} {a}
/// {b} {d}` are four parts.
Partitioning partition_convex(GraphTopo const& topo, std::span<uint32_t const> colours);

}  // namespace refactor::graph_topo
