#pragma once
#include "graph_topo/graph_topo.h"

#include <vector>

namespace refactor::graph_topo {

/// Some nodes of a topology, by the ids of the whole. Refers to the topology, which must outlive it.
class SubGraph {
    GraphTopo const* topo_;
    std::vector<NodeIdx> nodes_;
    std::vector<bool> contains_;
    std::vector<EdgeIdx> inputs_, outputs_, sources_;

public:
    /// `nodes` in any order, each once. Edges without a producer that are no global inputs are constants: they belong
    /// to every sub-graph that reads them instead of crossing its border.
    SubGraph(GraphTopo const& topo, std::vector<NodeIdx> nodes);
    SubGraph(GraphTopo&&, std::vector<NodeIdx>) = delete;

    GraphTopo const& whole() const { return *topo_; }
    /// Ascending, so in topological order.
    std::vector<NodeIdx> const& nodes() const { return nodes_; }
    bool contains(NodeIdx node) const { return contains_[node]; }
    /// Edges that come in (made by other nodes or global inputs), each once, in order of first use.
    std::vector<EdgeIdx> const& inputs() const { return inputs_; }
    /// Edges made inside that other nodes or the global outputs use, each once, in order of production.
    std::vector<EdgeIdx> const& outputs() const { return outputs_; }
    /// Constants that its nodes read, each once, in order of first use.
    std::vector<EdgeIdx> const& sources() const { return sources_; }
    /// No path leaves the sub-graph and comes back. O(V + E).
    bool is_convex() const;

    /// A topology of its own, with the way back to the ids of the whole.
    struct Extract {
        GraphTopo topo;
        std::vector<NodeIdx> nodes;  ///< by local node index
        std::vector<EdgeIdx> edges;  ///< by local edge index
    };
    /// Its global inputs are `inputs()`, its global outputs `outputs()`.
    Extract extract() const;
};

}  // namespace refactor::graph_topo
