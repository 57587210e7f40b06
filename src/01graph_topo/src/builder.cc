#include "graph_topo/builder.h"

#include "graph_topo/order.h"

#include <map>

namespace refactor::graph_topo::detail {

namespace {

/// Finds who makes each edge, and everything that is wrong with single edges.
class EdgeCheck {
    Description const& graph_;
    DenseError& error_;
    std::vector<NodeIdx> producers_;
    std::vector<bool> given_;

    void find_producers() {
        std::map<EdgeIdx, DenseError::DoubleEdge> twice;
        auto clash = [&](EdgeIdx edge) -> DenseError::DoubleEdge& {
            auto [it, fresh] = twice.try_emplace(edge);
            if (fresh) it->second.edge = edge;
            return it->second;
        };
        for (auto const* list : {&graph_.global_inputs, &graph_.sources})
            for (auto edge : *list) {
                if (given_[edge]) clash(edge).global = true;
                given_[edge] = true;
            }
        for (NodeIdx node = 0; node < graph_.outputs.size(); ++node)
            for (auto edge : graph_.outputs[node]) {
                auto& producer = producers_[edge];
                if (given_[edge]) {
                    auto& entry = clash(edge);
                    entry.global = true, entry.nodes.push_back(node);
                } else if (producer != kNoNode) {
                    auto& entry = clash(edge);
                    if (entry.nodes.empty()) entry.nodes.push_back(producer);
                    entry.nodes.push_back(node);
                } else {
                    producer = node;
                }
            }
        for (auto& [edge, entry] : twice) error_.double_edges.push_back(std::move(entry));
    }

    void find_missing() {
        auto missing = [&](EdgeIdx edge) { return !given_[edge] && producers_[edge] == kNoNode; };
        for (NodeIdx node = 0; node < graph_.inputs.size(); ++node) {
            auto row = graph_.inputs[node];
            for (uint32_t slot = 0; slot < row.size(); ++slot)
                if (row[slot] != kNoEdge && missing(row[slot])) error_.missing_edges.push_back({row[slot], node, slot});
        }
        for (auto edge : graph_.global_outputs)
            if (missing(edge)) error_.missing_outputs.push_back(edge);
    }

public:
    EdgeCheck(Description const& graph, DenseError& error)
        : graph_(graph), error_(error), producers_(graph.edge_count, kNoNode), given_(graph.edge_count) {
        find_producers();
        find_missing();
    }
    std::vector<NodeIdx> const& producers() const { return producers_; }
};

Rows<NodeIdx> dependencies_of(Description const& graph, std::vector<NodeIdx> const& producers) {
    Rows<NodeIdx> rows;
    rows.starts = graph.inputs.starts;
    rows.values.reserve(graph.inputs.values.size());
    for (auto edge : graph.inputs.values) rows.values.push_back(edge == kNoEdge ? kNoNode : producers[edge]);
    return rows;
}

}  // namespace

Result<std::vector<NodeIdx>, DenseError> check_and_order(Description const& description) {
    DenseError error;
    EdgeCheck edges(description, error);
    auto dependencies = dependencies_of(description, edges.producers());
    auto order = stable_order(dependencies);
    if (order.size() != dependencies.size()) error.cycles = find_cycles(dependencies);
    if (!error.empty()) return Err{std::move(error)};
    return order;
}

GraphTopo arrange(Description&& description, std::vector<NodeIdx> const& order) {
    Rows<EdgeIdx> inputs, outputs;
    inputs.values.reserve(description.inputs.values.size()), outputs.values.reserve(description.outputs.values.size());
    for (auto node : order) inputs.push_row(description.inputs[node]), outputs.push_row(description.outputs[node]);
    return GraphTopo(std::move(inputs), std::move(outputs), std::move(description.global_inputs),
                     std::move(description.global_outputs), description.edge_count);
}

}  // namespace refactor::graph_topo::detail
