#pragma once
#include "common/error.h"
#include "graph_topo/linked_graph.h"
#include "graph_topo/order.h"

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
    Rows<NodeIdx> dependencies;
    dependencies.starts.reserve(nodes_.size() + 1);
    for (auto const& node : nodes_) {
        if (node && node->alive_)
            for (auto* edge : node->inputs())
                if (edge && edge->producer_) dependencies.values.push_back(edge->producer_->id_);
        dependencies.starts.push_back(static_cast<uint32_t>(dependencies.values.size()));
    }
    auto numbers = detail::stable_order(dependencies);
    if (numbers.size() != nodes_.size()) {
        std::string cycle;
        auto cycles = detail::find_cycles(dependencies);
        for (auto number : cycles.front()) cycle += ' ' + std::to_string(number);
        throw InternalError("the graph has a cycle through the nodes with the ids" + cycle);
    }
    std::vector<NodePtr> order;
    order.reserve(living_);
    for (auto number : numbers)
        if (auto* node = nodes_[number].get(); node && node->alive_) order.push_back(node);
    return NodeSnapshot<N, E>(std::move(order));
}

template <class N, class E>
std::vector<std::string> LinkedGraph<N, E>::verify() const {
    std::vector<std::string> problems;
    auto check_edge = [&](EdgePtr edge, std::string const& user) {
        auto text = "edge " + std::to_string(edge->id_) + " used by " + user;
        if (!edge->alive_)
            problems.push_back(text + " was erased");
        else if (edge->kind_ == Kind::Dangling)
            problems.push_back(text + " has no producer");
    };
    for (auto const& node : nodes_) {
        if (!node || !node->alive_) continue;
        auto name = "node " + std::to_string(node->id_);
        for (size_t i = 0; i < node->inputs_.size(); ++i) {
            auto* edge = node->inputs_[i];
            if (!edge) continue;
            check_edge(edge, name);
            auto position = node->positions_[i];
            if (position >= edge->uses_.size() || edge->uses_[position].node != node.get() ||
                edge->uses_[position].slot != i)
                problems.push_back("edge " + std::to_string(edge->id_) + " does not know its use by " + name);
        }
        for (size_t i = 0; i < node->outputs_.size(); ++i)
            if (node->outputs_[i]->producer_ != node.get() || node->outputs_[i]->slot_ != i)
                problems.push_back("edge " + std::to_string(node->outputs_[i]->id_) + " does not know its producer " +
                                   name);
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
