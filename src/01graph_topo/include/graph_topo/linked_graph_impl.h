#pragma once
#include <algorithm>
#include <queue>

#include "common/error.h"
#include "graph_topo/linked_graph.h"

namespace refactor::graph_topo {

template <class N, class E>
LinkedGraph<N, E>::LinkedGraph(Graph<N, E> graph) {
    auto const& topo = graph.topo;
    nodes_.reserve(topo.node_count()), edges_.reserve(topo.edge_count());
    for (EdgeIdx i = 0; i < topo.edge_count(); ++i)
        edges_.push_back(std::make_unique<EdgeType>(i, Kind::Source, std::move(graph.edges[i])));
    for (auto i : topo.global_inputs()) {
        edges_[i]->kind_ = Kind::Input;
        inputs_.push_back(edges_[i].get());
    }
    for (NodeIdx i = 0; i < topo.node_count(); ++i) {
        nodes_.push_back(std::make_unique<NodeType>(i, std::move(graph.nodes[i])));
        auto* node = nodes_.back().get();
        for (auto edge : topo.outputs(i)) {
            auto* output = edges_[edge].get();
            output->kind_ = Kind::Produced, output->producer_ = node;
            output->slot_ = static_cast<uint32_t>(node->outputs_.size());
            node->outputs_.push_back(output);
        }
        for (auto edge : topo.inputs(i)) push_input(node, edge == kNoEdge ? nullptr : edges_[edge].get());
    }
    for (auto i : topo.global_outputs()) add_output(edges_[i].get());
    living_ = nodes_.size();
}

template <class N, class E>
NodeSnapshot<N, E> LinkedGraph<N, E>::topological() const {
    std::vector<uint32_t> waiting(nodes_.size());
    // The smallest id first: the order of insertion wherever that is legal.
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (auto const& node : nodes_) {
        if (!node || !node->alive_) continue;
        uint32_t count = 0;
        for (auto* edge : node->inputs()) count += edge && edge->producer_;
        waiting[node->id_] = count;
        if (!count) ready.push(node->id_);
    }
    std::vector<NodePtr> order;
    order.reserve(living_);
    while (!ready.empty()) {
        auto* node = nodes_[ready.top()].get();
        ready.pop();
        order.push_back(node);
        for (auto* edge : node->outputs())
            for (auto const& use : edge->uses_)
                if (--waiting[use.node->id_] == 0) ready.push(use.node->id_);
    }
    ensure(order.size() == living_, "the graph has a cycle");
    return NodeSnapshot<N, E>(std::move(order));
}

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
auto LinkedGraph<N, E>::insert_producing(N value, std::span<EdgePtr const> inputs, std::span<EdgePtr const> outputs)
    -> NodePtr {
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
        if (output == from) output = to, ++to->output_uses_, --from->output_uses_;
    if (from->kind_ == Kind::Dangling) from->alive_ = false;
}

template <class N, class E>
std::vector<std::string> LinkedGraph<N, E>::verify() const {
    std::vector<std::string> problems;
    auto check_edge = [&](EdgePtr edge, std::string const& user) {
        auto text = "edge " + std::to_string(edge->id_) + " used by " + user;
        if (!edge->alive_) problems.push_back(text + " was erased");
        else if (edge->kind_ == Kind::Dangling) problems.push_back(text + " has no producer");
    };
    for (auto const& node : nodes_) {
        if (!node || !node->alive_) continue;
        auto name = "node " + std::to_string(node->id_);
        for (size_t i = 0; i < node->inputs_.size(); ++i) {
            auto* edge = node->inputs_[i];
            if (!edge) continue;
            check_edge(edge, name);
            auto position = node->positions_[i];
            if (position >= edge->uses_.size() || edge->uses_[position].node != node.get() || edge->uses_[position].slot != i)
                problems.push_back("edge " + std::to_string(edge->id_) + " does not know its use by " + name);
        }
        for (size_t i = 0; i < node->outputs_.size(); ++i)
            if (node->outputs_[i]->producer_ != node.get() || node->outputs_[i]->slot_ != i)
                problems.push_back("edge " + std::to_string(node->outputs_[i]->id_) + " does not know its producer " + name);
    }
    for (auto* edge : outputs_) check_edge(edge, "the graph's outputs");
    if (!problems.empty()) return problems;
    try {
        (void)topological();
    } catch (InternalError const& error) {
        problems.push_back(error.what());
    }
    return problems;
}

template <class N, class E>
void LinkedGraph<N, E>::collect() {
    for (auto& node : nodes_)
        if (node && !node->alive_) node = nullptr;
    for (auto& edge : edges_)
        if (edge && !edge->alive_) edge = nullptr;
}

namespace detail {

/// Numbers for the edges of a flat graph, in order of first mention.
template <class EdgePtr>
struct Numbering {
    std::vector<EdgeIdx> numbers;
    std::vector<EdgePtr> edges;
    EdgeIdx of(EdgePtr edge) {
        if (!edge) return kNoEdge;
        auto& number = numbers[edge->id()];
        if (number == kNoEdge) number = static_cast<EdgeIdx>(edges.size()), edges.push_back(edge);
        return number;
    }
};

template <class N, class E, class TakeNode, class TakeEdge>
Graph<N, E> flatten(LinkedGraph<N, E> const& graph, bool drop_dead, TakeNode take_node, TakeEdge take_edge) {
    Numbering<LinkedEdge<N, E>*> numbering;
    numbering.numbers.assign(graph.edge_id_bound(), kNoEdge);
    auto order = graph.topological();
    std::vector<bool> live(graph.node_id_bound(), !drop_dead);
    for (auto* node : order.reversed())
        for (auto* edge : node->outputs()) {
            if (edge->is_output()) live[node->id()] = true;
            for (auto const& use : edge->consumers())
                if (live[use.node->id()]) live[node->id()] = true;
        }
    Rows<EdgeIdx> inputs, outputs;
    std::vector<EdgeIdx> global_inputs, global_outputs, row;
    Graph<N, E> flat;
    for (auto* edge : graph.inputs()) global_inputs.push_back(numbering.of(edge));
    auto push = [&](Rows<EdgeIdx>& rows, auto edges) {
        row.clear();
        for (auto* edge : edges) row.push_back(numbering.of(edge));
        rows.push_row(row);
    };
    for (auto* node : order) {
        if (!live[node->id()]) continue;
        push(inputs, node->inputs()), push(outputs, node->outputs());
        flat.nodes.push_back(take_node(*node));
    }
    for (auto* edge : graph.outputs()) global_outputs.push_back(numbering.of(edge));
    for (auto* edge : numbering.edges) flat.edges.push_back(take_edge(*edge));
    flat.topo = GraphTopo(std::move(inputs), std::move(outputs), std::move(global_inputs), std::move(global_outputs),
                          numbering.edges.size());
    return flat;
}

}  // namespace detail

template <class N, class E>
Graph<N, E> LinkedGraph<N, E>::sort(bool drop_dead) && {
    return detail::flatten(
        *this, drop_dead, [](NodeType& node) { return std::move(node.value); },
        [](EdgeType& edge) { return std::move(edge.value); });
}

template <class N, class E>
Graph<N, E> LinkedGraph<N, E>::sort(bool drop_dead) const& {
    return detail::flatten(
        *this, drop_dead, [](NodeType& node) { return node.value; }, [](EdgeType& edge) { return edge.value; });
}

}  // namespace refactor::graph_topo
