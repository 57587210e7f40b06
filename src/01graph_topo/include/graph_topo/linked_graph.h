#pragma once
#include "graph_topo/graph.h"
#include "graph_topo/linked_node.h"

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

namespace refactor::graph_topo {

/// The graph that passes edit. Handles are pointers that stay valid for the life of the graph object (also when it is
/// moved): an erased node or edge leaves an empty husk with `alive() == false` until `collect()`. So this is safe:
///
///     for (auto* node : graph.topological()) {             // snapshot: inserted nodes are not visited, erased ones
///     are skipped
///         auto* relu = node->output()->only_consumer();
///         if (!is_conv(node) || !relu || !is_relu(relu)) continue;
///         node->value.activation = Relu;
///         graph.replace_all_uses(relu->output(), node->output());
///         graph.erase(relu);
///     }
///
/// Edits are O(1) (plus the number of edges they touch). Misuse (a handle of an erased node, a slot out of range)
/// throws `InternalError`. Not thread-safe.
template <class N, class E>
class LinkedGraph {
public:
    using NodeType = LinkedNode<N, E>;
    using EdgeType = LinkedEdge<N, E>;
    using NodePtr = NodeType*;
    using EdgePtr = EdgeType*;
    using Kind = typename EdgeType::Kind;

    LinkedGraph() = default;
    /// Node and edge ids are the indices in `graph`.
    explicit LinkedGraph(Graph<N, E> graph);
    LinkedGraph(LinkedGraph&&) noexcept = default;
    LinkedGraph& operator=(LinkedGraph&&) noexcept = default;

    std::vector<EdgePtr> const& inputs() const { return inputs_; }
    std::vector<EdgePtr> const& outputs() const { return outputs_; }
    /// Living nodes.
    size_t node_count() const { return living_; }
    /// By id; the ids are the indices of the `Graph` it was made from. May be erased, or null after `collect`.
    NodePtr node(uint32_t id) const { return nodes_.at(id).get(); }
    EdgePtr edge(uint32_t id) const { return edges_.at(id).get(); }
    /// Bounds for tables indexed by id.
    uint32_t node_id_bound() const { return static_cast<uint32_t>(nodes_.size()); }
    uint32_t edge_id_bound() const { return static_cast<uint32_t>(edges_.size()); }

    /// Nodes, producers first, otherwise in order of insertion. O(V + E), not recursive. Throws `InternalError` on a
    /// cycle.
    NodeSnapshot<N, E> topological() const;

    EdgePtr add_input(E value = {});
    /// A constant.
    EdgePtr add_source(E value = {});
    void add_output(EdgePtr edge);
    void set_output(size_t i, EdgePtr edge);

    /// A new node with `n_outputs` fresh edges. Inputs may be null.
    NodePtr insert(N value, std::span<EdgePtr const> inputs, size_t n_outputs = 1);
    NodePtr insert(N value, std::initializer_list<EdgePtr> inputs, size_t n_outputs = 1);
    /// A new node that produces existing edges, which keep handle, value and uses. An edge that has a producer is taken
    /// from it, and that producer gets a fresh edge in its place; a dangling one (its producer was erased) gets a
    /// producer again.
    NodePtr insert_producing(N value, std::span<EdgePtr const> inputs, std::span<EdgePtr const> outputs);
    NodePtr insert_producing(N value, std::initializer_list<EdgePtr> inputs, std::initializer_list<EdgePtr> outputs);
    /// Removes the node. Its output edges die if nothing uses them; others are dangling until something produces or
    /// replaces them.
    void erase(NodePtr node);
    /// Removes the node and, transitively, producers none of whose outputs is used any more. Returns how many nodes
    /// went.
    size_t erase_unused(NodePtr node);
    /// Removes every node from which no global output can be reached. Returns how many.
    size_t erase_dead();

    /// Makes `edge` (or nothing, if null) the input `slot`, which must exist.
    void set_input(NodePtr node, size_t slot, EdgePtr edge);
    void push_input(NodePtr node, EdgePtr edge);
    /// Removes the slot; later inputs move down by one.
    void remove_input(NodePtr node, size_t slot);
    EdgePtr push_output(NodePtr node, E value = {});
    /// Every consumer and global output of `from` uses `to` instead.
    void replace_all_uses(EdgePtr from, EdgePtr to);

    /// Everything that is inconsistent, as text: dangling edges in use, cycles, broken links. Empty: the graph is
    /// sound.
    std::vector<std::string> verify() const;
    /// Frees the husks; afterwards handles of erased nodes and edges, and only those, are invalid. Ids stay.
    void collect();

    /// Back to a flat graph, nodes in the order of `topological()`. Edges that nothing produces or uses are left out,
    /// global inputs stay.
    /// `&&` moves the values, `const` copies them.
    Graph<N, E> sort(bool drop_dead = true) &&;
    Graph<N, E> sort(bool drop_dead = true) const&;

private:
    std::vector<std::unique_ptr<NodeType>> nodes_;
    std::vector<std::unique_ptr<EdgeType>> edges_;
    std::vector<EdgePtr> inputs_, outputs_;
    size_t living_ = 0;
};

}  // namespace refactor::graph_topo

#include "graph_topo/linked_graph_impl.h"
#include "graph_topo/linked_graph_sort_impl.h"
