#pragma once
#include "graph_topo/graph_topo.h"

namespace refactor::graph_topo {

/// Neighbours of nodes. Building is O(V + E), each query O(1). Refers to the topology, which must outlive it.
class Searcher {
    GraphTopo const* topo_;
    Rows<NodeIdx> predecessors_, successors_;
    std::vector<uint32_t> output_uses_;

public:
    explicit Searcher(GraphTopo const& topo);
    Searcher(GraphTopo&&) = delete;

    GraphTopo const& topo() const { return *topo_; }
    /// Nodes that make inputs of `node`: each once, ascending.
    std::span<NodeIdx const> predecessors(NodeIdx node) const { return predecessors_[node]; }
    /// Nodes that read outputs of `node`: each once, ascending.
    std::span<NodeIdx const> successors(NodeIdx node) const { return successors_[node]; }
    Port producer(EdgeIdx edge) const { return topo_->producer(edge); }
    std::span<Port const> consumers(EdgeIdx edge) const { return topo_->consumers(edge); }
    bool is_global_output(EdgeIdx edge) const { return output_uses_[edge] != 0; }
    /// Uses by nodes and as global output.
    size_t use_count(EdgeIdx edge) const { return topo_->consumers(edge).size() + output_uses_[edge]; }
};

/// Nodes from which a global output can be reached.
std::vector<bool> live_nodes(GraphTopo const& topo);

}  // namespace refactor::graph_topo
