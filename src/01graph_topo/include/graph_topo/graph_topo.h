#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace refactor::graph_topo {

/// Nodes and edges of a `GraphTopo` are numbered from 0; nodes in a topological order.
using NodeIdx = uint32_t;
using EdgeIdx = uint32_t;
/// The input of a node that was omitted (optional inputs).
inline constexpr EdgeIdx kNoEdge = UINT32_MAX;
/// The producer of an edge that no node produces: a global input or a source.
inline constexpr NodeIdx kNoNode = UINT32_MAX;

/// One end of an edge: the `slot`-th input or output of `node`.
struct Port {
    NodeIdx node = kNoNode;
    uint32_t slot = 0;
    bool operator==(Port const&) const = default;
};

/// Lists of 32-bit values stored one after the other (compressed rows).
template <class T>
struct Rows {
    std::vector<uint32_t> starts{0};
    std::vector<T> values;

    size_t size() const { return starts.size() - 1; }
    std::span<T const> operator[](size_t row) const {
        return {values.data() + starts[row], starts[row + 1] - starts[row]};
    }
    void push_row(std::span<T const> row) {
        values.insert(values.end(), row.begin(), row.end());
        starts.push_back(static_cast<uint32_t>(values.size()));
    }
};

/// How nodes are connected, without what they mean. Immutable; copies are deep. All queries are O(1).
///
/// Every edge is exactly one of: an output of a node, a global input, or a source (a constant that nobody produces).
/// Every output slot of a node has an edge of its own; an input slot may be `kNoEdge`.
class GraphTopo {
    Rows<EdgeIdx> inputs_, outputs_;
    std::vector<EdgeIdx> global_inputs_, global_outputs_;
    std::vector<Port> producers_;
    Rows<Port> consumers_;

public:
    GraphTopo() = default;
    /// Nodes must be in topological order and every edge index below `edge_count`; throws `InternalError` otherwise
    /// (`Builder` is the door for input that has not been checked).
    GraphTopo(Rows<EdgeIdx> inputs, Rows<EdgeIdx> outputs, std::vector<EdgeIdx> global_inputs,
              std::vector<EdgeIdx> global_outputs, size_t edge_count);

    size_t node_count() const { return inputs_.size(); }
    size_t edge_count() const { return producers_.size(); }
    std::span<EdgeIdx const> inputs(NodeIdx node) const { return inputs_[node]; }
    std::span<EdgeIdx const> outputs(NodeIdx node) const { return outputs_[node]; }
    std::span<EdgeIdx const> global_inputs() const { return global_inputs_; }
    /// The same edge may be listed more than once, and may be a global input too.
    std::span<EdgeIdx const> global_outputs() const { return global_outputs_; }

    /// The node and output slot that make `edge`; `node == kNoNode` for global inputs and sources.
    Port producer(EdgeIdx edge) const { return producers_[edge]; }
    /// Every use of `edge` by a node, in node order; a node that reads it twice is listed twice.
    std::span<Port const> consumers(EdgeIdx edge) const { return consumers_[edge]; }
};

}  // namespace refactor::graph_topo
