#pragma once
#include "common/error.h"
#include "graph_topo/pattern.h"

#include <algorithm>

namespace refactor::graph_topo {

template <class N, class E>
std::optional<Match<N, E>> Pattern<N, E>::match(NodePtr root) const {
    ensure(!terms_.empty() && terms_.back().kind == Kind::Op, "Pattern::match: the last term must be an operator");
    auto const& top = terms_.back();
    if (!root->alive() || top.output >= root->outputs().size()) return std::nullopt;
    State state{
        std::vector<EdgePtr>(terms_.size()), std::vector<NodePtr>(terms_.size()), std::vector<bool>(terms_.size()), {}};
    state.goals.push_back({terms_.size() - 1, root->output(top.output)});
    if (!solve(state, 0)) return std::nullopt;
    Match<N, E> match;
    match.edges_ = std::move(state.edges), match.nodes_ = std::move(state.nodes);
    return match;
}

/// Meets the goals from number `done` on; on failure the state is as before.
template <class N, class E>
bool Pattern<N, E>::solve(State& state, size_t done) const {
    if (done == state.goals.size()) return confined(state);
    auto [id, edge] = state.goals[done];
    auto const& term = terms_[id];
    if (state.bound[id]) return state.edges[id] == edge && solve(state, done + 1);
    if (!edge && term.kind != Kind::Optional && term.kind != Kind::Absent) return false;
    NodePtr node = nullptr;
    switch (term.kind) {
        case Kind::Any:
        case Kind::Optional:
            break;
        case Kind::Edge:
            if (!term.edge_test(*edge)) return false;
            break;
        case Kind::Absent:
            if (edge) return false;
            break;
        case Kind::Op:
            node = edge->producer();
            if (!node || edge->slot() != term.output || !term.node_test(node->value)) return false;
            break;
    }
    state.bound[id] = true, state.edges[id] = edge, state.nodes[id] = node;
    if (node ? expand(state, done, id, node) : solve(state, done + 1)) return true;
    state.bound[id] = false, state.edges[id] = nullptr, state.nodes[id] = nullptr;
    return false;
}

/// Adds the operands of operator term `id` to the goals, in one order or the other.
template <class N, class E>
bool Pattern<N, E>::expand(State& state, size_t done, size_t id, NodePtr node) const {
    auto const& operands = terms_[id].operands;
    auto given = node->inputs().size();
    while (given && !node->input(given - 1)) --given;
    if (given > operands.size()) return false;
    auto before = state.goals.size();
    bool swappable = terms_[id].commutative && operands.size() >= 2;
    for (size_t swapped = 0; swapped <= (swappable ? 1 : 0); ++swapped) {
        for (size_t i = 0; i < operands.size(); ++i)
            state.goals.push_back({operands[i], node->input(i < 2 ? i ^ swapped : i)});
        if (solve(state, done + 1)) return true;
        state.goals.resize(before);
    }
    return false;
}

/// No inner value is used outside of the match, as its nodes stand in `state`.
template <class N, class E>
bool Pattern<N, E>::confined(State const& state) const {
    for (size_t i = 0; i + 1 < terms_.size(); ++i) {
        auto* node = state.nodes[i];
        if (!node || terms_[i].shared) continue;
        for (auto* edge : node->outputs()) {
            if (edge->is_output()) return false;
            for (auto const& use : edge->consumers())
                if (std::find(state.nodes.begin(), state.nodes.end(), use.node) == state.nodes.end()) return false;
        }
    }
    return true;
}

}  // namespace refactor::graph_topo
