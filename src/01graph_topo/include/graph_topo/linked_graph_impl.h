#pragma once
#include "common/error.h"
#include "graph_topo/linked_graph.h"

namespace refactor::graph_topo {

template <class N, class E>
auto LinkedGraph<N, E>::add_input(E value) -> EdgePtr {
    edges_.push_back(std::make_unique<EdgeType>(edge_id_bound(), Kind::Input, std::move(value)));
    inputs_.push_back(edges_.back().get());
    return inputs_.back();
}

template <class N, class E>
auto LinkedGraph<N, E>::add_source(E value) -> EdgePtr {
    edges_.push_back(std::make_unique<EdgeType>(edge_id_bound(), Kind::Source, std::move(value)));
    return edges_.back().get();
}

template <class N, class E>
void LinkedGraph<N, E>::add_output(EdgePtr edge) {
    ensure(edge && edge->alive_, "add_output: the edge was erased");
    outputs_.push_back(edge);
    ++edge->output_uses_;
}

template <class N, class E>
void LinkedGraph<N, E>::set_output(size_t i, EdgePtr edge) {
    ensure(i < outputs_.size() && edge && edge->alive_, "set_output: no such output, or the edge was erased");
    ++edge->output_uses_, --outputs_[i]->output_uses_;
    outputs_[i] = edge;
}

template <class N, class E>
auto LinkedGraph<N, E>::insert(N value, std::span<EdgePtr const> inputs, size_t n_outputs) -> NodePtr {
    nodes_.push_back(std::make_unique<NodeType>(node_id_bound(), std::move(value)));
    ++living_;
    auto* node = nodes_.back().get();
    for (auto* edge : inputs) push_input(node, edge);
    for (size_t i = 0; i < n_outputs; ++i) push_output(node);
    return node;
}

template <class N, class E>
auto LinkedGraph<N, E>::insert(N value, std::initializer_list<EdgePtr> inputs, size_t n_outputs) -> NodePtr {
    return insert(std::move(value), std::span<EdgePtr const>(inputs.begin(), inputs.size()), n_outputs);
}

template <class N, class E>
auto LinkedGraph<N, E>::insert_producing(N value, std::span<EdgePtr const> inputs,
                                         std::span<EdgePtr const> outputs) -> NodePtr {
    auto* node = insert(std::move(value), inputs, 0);
    for (auto* edge : outputs) {
        ensure(edge && edge->alive_ && (edge->producer_ || edge->kind_ == Kind::Dangling),
               "insert_producing: the edge is a global input or a source, or was erased");
        if (auto* former = edge->producer_) {
            edges_.push_back(std::make_unique<EdgeType>(edge_id_bound(), Kind::Produced, E{}));
            auto* stand_in = edges_.back().get();
            stand_in->producer_ = former, stand_in->slot_ = edge->slot_;
            former->outputs_[edge->slot_] = stand_in;
        }
        edge->producer_ = node, edge->kind_ = Kind::Produced;
        edge->slot_ = static_cast<uint32_t>(node->outputs_.size());
        node->outputs_.push_back(edge);
    }
    return node;
}

template <class N, class E>
auto LinkedGraph<N, E>::insert_producing(N value, std::initializer_list<EdgePtr> inputs,
                                         std::initializer_list<EdgePtr> outputs) -> NodePtr {
    return insert_producing(std::move(value), std::span<EdgePtr const>(inputs.begin(), inputs.size()),
                            std::span<EdgePtr const>(outputs.begin(), outputs.size()));
}

template <class N, class E>
void LinkedGraph<N, E>::erase(NodePtr node) {
    ensure(node && node->alive_, "erase: the node was erased before");
    while (!node->inputs_.empty()) remove_input(node, node->inputs_.size() - 1);
    for (auto* edge : node->outputs_) {
        edge->producer_ = nullptr, edge->kind_ = Kind::Dangling;
        edge->alive_ = edge->use_count() != 0;
    }
    node->outputs_.clear();
    node->alive_ = false;
    --living_;
}

template <class N, class E>
size_t LinkedGraph<N, E>::erase_unused(NodePtr node) {
    size_t erased = 0;
    std::vector<NodePtr> queue{node};
    while (!queue.empty()) {
        auto* next = queue.back();
        queue.pop_back();
        bool used = false;
        for (auto* edge : next->outputs_) used |= edge->use_count() != 0;
        if (!next->alive_ || used) continue;
        for (auto* edge : next->inputs_)
            if (edge && edge->producer_) queue.push_back(edge->producer_);
        erase(next);
        ++erased;
    }
    return erased;
}

template <class N, class E>
size_t LinkedGraph<N, E>::erase_dead() {
    size_t erased = 0;
    for (auto* node : topological().reversed()) {
        bool used = false;
        for (auto* edge : node->outputs_) used |= edge->use_count() != 0;
        if (used) continue;
        erase(node);
        ++erased;
    }
    return erased;
}

template <class N, class E>
void LinkedGraph<N, E>::set_input(NodePtr node, size_t slot, EdgePtr edge) {
    ensure(node && node->alive_ && slot < node->inputs_.size(), "set_input: no such input, or the node was erased");
    ensure(!edge || edge->alive_, "set_input: the edge was erased");
    if (auto* former = node->inputs_[slot]) {
        auto position = node->positions_[slot];
        auto last = former->uses_.back();
        former->uses_[position] = last;
        last.node->positions_[last.slot] = position;
        former->uses_.pop_back();
    }
    node->inputs_[slot] = edge;
    if (!edge) return;
    node->positions_[slot] = static_cast<uint32_t>(edge->uses_.size());
    edge->uses_.push_back({node, static_cast<uint32_t>(slot)});
}

template <class N, class E>
void LinkedGraph<N, E>::push_input(NodePtr node, EdgePtr edge) {
    ensure(node && node->alive_, "push_input: the node was erased");
    node->inputs_.push_back(nullptr);
    node->positions_.push_back(0);
    set_input(node, node->inputs_.size() - 1, edge);
}

template <class N, class E>
void LinkedGraph<N, E>::remove_input(NodePtr node, size_t slot) {
    ensure(node && node->alive_ && slot < node->inputs_.size(), "remove_input: no such input, or the node was erased");
    for (auto i = slot; i + 1 < node->inputs_.size(); ++i) set_input(node, i, node->inputs_[i + 1]);
    set_input(node, node->inputs_.size() - 1, nullptr);
    node->inputs_.pop_back();
    node->positions_.pop_back();
}

template <class N, class E>
auto LinkedGraph<N, E>::push_output(NodePtr node, E value) -> EdgePtr {
    ensure(node && node->alive_, "push_output: the node was erased");
    edges_.push_back(std::make_unique<EdgeType>(edge_id_bound(), Kind::Produced, std::move(value)));
    auto* edge = edges_.back().get();
    edge->producer_ = node, edge->slot_ = static_cast<uint32_t>(node->outputs_.size());
    node->outputs_.push_back(edge);
    return edge;
}

template <class N, class E>
void LinkedGraph<N, E>::replace_all_uses(EdgePtr from, EdgePtr to) {
    ensure(from && to && to->alive_, "replace_all_uses: the edge was erased");
    if (from == to) return;
    while (!from->uses_.empty()) {
        auto use = from->uses_.back();
        set_input(use.node, use.slot, to);
    }
    for (auto& output : outputs_)
        if (from->output_uses_ && output == from) output = to, ++to->output_uses_, --from->output_uses_;
    if (from->kind_ == Kind::Dangling) from->alive_ = false;
}

template <class N, class E>
void LinkedGraph<N, E>::collect() {
    for (auto& node : nodes_)
        if (node && !node->alive_) node = nullptr;
    for (auto& edge : edges_)
        if (edge && !edge->alive_) edge = nullptr;
}

}  // namespace refactor::graph_topo
