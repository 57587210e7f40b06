#pragma once
#include "graph_topo/linked_graph.h"

#include <functional>
#include <optional>
#include <vector>

namespace refactor::graph_topo {

/// What a pattern bound: handles by the ids that the pattern gave out.
template <class N, class E>
class Match {
    template <class, class>
    friend class Pattern;
    std::vector<LinkedEdge<N, E>*> edges_;
    std::vector<LinkedNode<N, E>*> nodes_;

public:
    /// The edge bound to a term; null for an absent one.
    LinkedEdge<N, E>* edge(size_t term) const { return edges_[term]; }
    /// The node bound to an operator term; null for other terms.
    LinkedNode<N, E>* node(size_t term) const { return nodes_[term]; }
    LinkedEdge<N, E>* operator[](size_t term) const { return edges_[term]; }
    /// Erases all matched nodes that nothing uses any more, the root first.
    void erase_unused(LinkedGraph<N, E>& graph) const {
        for (auto i = nodes_.size(); i-- > 0;)
            if (auto* node = nodes_[i]; node && node->alive()) graph.erase_unused(node);
    }
};

/// A tree or DAG of operators to look for, described from the inputs to the root.
///
/// Terms stand for edges and are numbers; a term that occurs twice must be the same edge both times. A node matches if
/// its predicate holds and its inputs match its operands one by one (trailing omitted inputs of the node are ignored).
/// The value of an inner operator term may be used only inside the match, so that the whole can be replaced, unless it
/// was declared `shared`.
///
///     Pattern<Op, Tensor> p;
///     auto x = p.any(), w = p.any(), b = p.any();
///     auto product = p.op([](Op const& op) { return op.is_matmul(); }, {x, w});
///     auto sum = p.commutative([](Op const& op) { return op.is_add(); }, {product, b});
///     for (auto* node : graph.topological())
///         if (auto match = p.match(node)) ...  // match->edge(b), match->node(product); the root is the last term
template <class N, class E>
class Pattern {
public:
    using NodePtr = LinkedNode<N, E>*;
    using EdgePtr = LinkedEdge<N, E>*;
    using NodeTest = std::function<bool(N const&)>;
    using EdgeTest = std::function<bool(LinkedEdge<N, E> const&)>;

    /// Any edge.
    size_t any() { return push(Kind::Any); }
    /// An edge that passes `test` (a constant, a shape, …).
    size_t edge(EdgeTest test) { return push(Kind::Edge, {}, std::move(test)); }
    /// Any edge, or an omitted input.
    size_t optional() { return push(Kind::Optional); }
    /// An omitted input.
    size_t absent() { return push(Kind::Absent); }
    /// Output `output` of a node that passes `test` and has exactly these operands.
    size_t op(NodeTest test, std::vector<size_t> operands, uint32_t output = 0) {
        return push(Kind::Op, std::move(test), {}, std::move(operands), output);
    }
    /// Like `op`; the first two operands match in either order.
    size_t commutative(NodeTest test, std::vector<size_t> operands, uint32_t output = 0) {
        return push(Kind::Op, std::move(test), {}, std::move(operands), output, true);
    }
    /// Allows uses of the operator term's value outside of the match; returns `term`.
    size_t shared(size_t term) {
        terms_[term].shared = true;
        return term;
    }

    /// The pattern with its last term at `root`, or nothing. Time is bounded by the pattern, not by the graph.
    std::optional<Match<N, E>> match(NodePtr root) const;

private:
    enum class Kind : uint8_t { Any, Edge, Optional, Absent, Op };
    struct Term {
        Kind kind = Kind::Any;
        bool commutative = false, shared = false;
        uint32_t output = 0;
        NodeTest node_test;
        EdgeTest edge_test;
        std::vector<size_t> operands;
    };
    struct Goal {
        size_t term;
        EdgePtr edge;
    };
    struct State {
        std::vector<EdgePtr> edges;
        std::vector<NodePtr> nodes;
        std::vector<bool> bound;
        std::vector<Goal> goals;
    };
    std::vector<Term> terms_;

    size_t push(Kind kind, NodeTest node_test = {}, EdgeTest edge_test = {}, std::vector<size_t> operands = {},
                uint32_t output = 0, bool commutative = false) {
        terms_.push_back(
            {kind, commutative, false, output, std::move(node_test), std::move(edge_test), std::move(operands)});
        return terms_.size() - 1;
    }
    bool solve(State& state, size_t done) const;
    bool expand(State& state, size_t done, size_t term, NodePtr node) const;
    bool confined(State const& state) const;
};

}  // namespace refactor::graph_topo

#include "graph_topo/pattern_impl.h"
