#pragma once
#include "common/small_vector.h"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace refactor::graph_topo {

template <class N, class E>
class LinkedGraph;
template <class N, class E>
class LinkedEdge;

/// A node of a `LinkedGraph`; handled by pointer. The pointer stays readable after the node was erased (see `alive`).
template <class N, class E>
class LinkedNode {
    friend class LinkedGraph<N, E>;
    using EdgePtr = LinkedEdge<N, E>*;
    SmallVector<EdgePtr, 4> inputs_;
    SmallVector<uint32_t, 4> positions_;  ///< of input i among the uses of its edge
    SmallVector<EdgePtr, 2> outputs_;
    uint32_t id_;
    bool alive_ = true;

public:
    N value;

    LinkedNode(uint32_t id, N&& data) : id_(id), value(std::move(data)) {}
    /// Null for an omitted input. The span stays valid until inputs are added or removed.
    std::span<EdgePtr const> inputs() const { return inputs_; }
    /// Never null. The span stays valid until outputs are added.
    std::span<EdgePtr const> outputs() const { return outputs_; }
    /// Input `i`, or null if it is omitted or there is none.
    EdgePtr input(size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
    EdgePtr output(size_t i = 0) const { return outputs_[i]; }
    /// False once it was erased: it then has no inputs and outputs.
    bool alive() const { return alive_; }
    /// Unique within the graph, ascending in order of insertion; never used again after `erase`.
    uint32_t id() const { return id_; }
};

/// A value that flows between nodes; handled by pointer, readable after erasure like a node.
template <class N, class E>
class LinkedEdge {
    friend class LinkedGraph<N, E>;
    using NodePtr = LinkedNode<N, E>*;

public:
    enum class Kind : uint8_t { Produced, Input, Source, Dangling };
    struct Use {
        NodePtr node;
        uint32_t slot;
    };

private:
    NodePtr producer_ = nullptr;
    SmallVector<Use, 4> uses_;
    uint32_t slot_ = 0, output_uses_ = 0, id_;
    Kind kind_;
    bool alive_ = true;

public:
    E value;

    LinkedEdge(uint32_t id, Kind kind, E&& data) : id_(id), kind_(kind), value(std::move(data)) {}
    /// Null for global inputs, sources (constants) and dangling edges.
    NodePtr producer() const { return producer_; }
    /// Which output of the producer it is.
    uint32_t slot() const { return slot_; }
    Kind kind() const { return kind_; }
    bool is_input() const { return kind_ == Kind::Input; }
    bool is_source() const { return kind_ == Kind::Source; }
    /// Is a global output of the graph.
    bool is_output() const { return output_uses_ != 0; }
    /// A copy, so that the graph may be edited while it is walked. In no particular but a deterministic order.
    SmallVector<Use, 4> consumers() const { return uses_; }
    size_t consumer_count() const { return uses_.size(); }
    /// Uses by nodes and as global output.
    size_t use_count() const { return uses_.size() + output_uses_; }
    /// The only node that reads it, or null if there are none or several uses, or it is a global output.
    NodePtr only_consumer() const { return use_count() == 1 && uses_.size() == 1 ? uses_[0].node : nullptr; }
    bool alive() const { return alive_; }
    uint32_t id() const { return id_; }
};

/// A fixed list of nodes that skips those erased since it was taken.
template <class N, class E>
class NodeSnapshot {
    using NodePtr = LinkedNode<N, E>*;
    std::vector<NodePtr> nodes_;

public:
    class Iterator {
        NodePtr const *at_, *end_;
        void skip() {
            while (at_ != end_ && !(*at_)->alive()) ++at_;
        }

    public:
        Iterator(NodePtr const* at, NodePtr const* end) : at_(at), end_(end) { skip(); }
        NodePtr operator*() const { return *at_; }
        Iterator& operator++() {
            ++at_, skip();
            return *this;
        }
        // Compares with the end only: a node erased in the meantime must not hide it.
        bool operator!=(Iterator const&) {
            skip();
            return at_ != end_;
        }
    };
    explicit NodeSnapshot(std::vector<NodePtr> nodes) : nodes_(std::move(nodes)) {}
    Iterator begin() const { return {nodes_.data(), nodes_.data() + nodes_.size()}; }
    Iterator end() const { return {nodes_.data() + nodes_.size(), nodes_.data() + nodes_.size()}; }
    /// The same nodes, consumers before producers.
    NodeSnapshot reversed() const { return NodeSnapshot({nodes_.rbegin(), nodes_.rend()}); }
    /// All nodes, erased ones included.
    std::vector<NodePtr> const& all() const { return nodes_; }
};

}  // namespace refactor::graph_topo
