#include "graph_topo/builder.h"

#include <algorithm>
#include <map>
#include <queue>

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

/// Kahn's algorithm; among the nodes that are ready, the one described first.
std::vector<NodeIdx> order_nodes(Description const& graph, std::vector<NodeIdx> const& producers,
                                 std::vector<uint32_t>& waiting) {
    auto count = graph.inputs.size();
    std::vector<uint32_t> uses(count + 1);
    waiting.assign(count, 0);
    auto for_each_dependency = [&](auto&& visit) {
        for (NodeIdx node = 0; node < count; ++node)
            for (auto edge : graph.inputs[node])
                if (edge != kNoEdge && producers[edge] != kNoNode) visit(producers[edge], node);
    };
    for_each_dependency([&](NodeIdx from, NodeIdx to) { ++uses[from + 1], ++waiting[to]; });
    for (size_t i = 0; i < count; ++i) uses[i + 1] += uses[i];
    std::vector<NodeIdx> consumers(uses.back());
    auto next = uses;
    for_each_dependency([&](NodeIdx from, NodeIdx to) { consumers[next[from]++] = to; });

    std::priority_queue<NodeIdx, std::vector<NodeIdx>, std::greater<>> ready;
    for (NodeIdx node = 0; node < count; ++node)
        if (!waiting[node]) ready.push(node);
    std::vector<NodeIdx> order;
    order.reserve(count);
    while (!ready.empty()) {
        auto node = ready.top();
        ready.pop();
        order.push_back(node);
        for (auto i = uses[node]; i < uses[node + 1]; ++i)
            if (--waiting[consumers[i]] == 0) ready.push(consumers[i]);
    }
    return order;
}

/// Walks backwards from every node that never became ready: such a node has a predecessor of the same kind, so the walk
/// meets itself.
void find_cycles(Description const& graph, std::vector<NodeIdx> const& producers, std::vector<uint32_t> const& waiting,
                 DenseError& error) {
    std::vector<uint32_t> walk(waiting.size());
    uint32_t number = 0;
    for (NodeIdx start = 0; start < waiting.size(); ++start) {
        if (!waiting[start] || walk[start]) continue;
        ++number;
        std::vector<NodeIdx> path;
        auto node = start;
        while (!walk[node]) {
            walk[node] = number;
            path.push_back(node);
            for (auto edge : graph.inputs[node])
                if (edge != kNoEdge && producers[edge] != kNoNode && waiting[producers[edge]]) {
                    node = producers[edge];
                    break;
                }
        }
        if (walk[node] != number) continue;
        std::vector<NodeIdx> cycle(std::find(path.begin(), path.end(), node), path.end());
        std::reverse(cycle.begin(), cycle.end());
        error.cycles.push_back(std::move(cycle));
    }
}

}  // namespace

Result<std::vector<NodeIdx>, DenseError> check_and_order(Description const& description) {
    DenseError error;
    EdgeCheck edges(description, error);
    std::vector<uint32_t> waiting;
    auto order = order_nodes(description, edges.producers(), waiting);
    if (order.size() != description.inputs.size()) find_cycles(description, edges.producers(), waiting, error);
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
