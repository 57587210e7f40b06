#include "graph_topo/sub_graph.h"

#include "common/error.h"

#include <algorithm>

namespace refactor::graph_topo {

SubGraph::SubGraph(GraphTopo const& topo, std::vector<NodeIdx> nodes)
    : topo_(&topo), nodes_(std::move(nodes)), contains_(topo.node_count()) {
    std::sort(nodes_.begin(), nodes_.end());
    for (auto node : nodes_) {
        ensure(node < topo.node_count(), "SubGraph: a node index is out of range");
        ensure(!contains_[node], "SubGraph: a node is listed twice");
        contains_[node] = true;
    }
    std::vector<bool> global_input(topo.edge_count()), global_output(topo.edge_count()), seen(topo.edge_count());
    for (auto edge : topo.global_inputs()) global_input[edge] = true;
    for (auto edge : topo.global_outputs()) global_output[edge] = true;
    for (auto node : nodes_) {
        for (auto edge : topo.inputs(node)) {
            if (edge == kNoEdge || seen[edge]) continue;
            seen[edge] = true;
            auto producer = topo.producer(edge).node;
            if (producer == kNoNode)
                (global_input[edge] ? inputs_ : sources_).push_back(edge);
            else if (!contains_[producer])
                inputs_.push_back(edge);
        }
        for (auto edge : topo.outputs(node)) {
            auto uses = topo.consumers(edge);
            bool outside = std::any_of(uses.begin(), uses.end(), [&](Port use) { return !contains_[use.node]; });
            if (outside || global_output[edge]) outputs_.push_back(edge);
        }
    }
}

bool SubGraph::is_convex() const {
    if (nodes_.empty()) return true;
    // Nodes outside that can be reached from inside; one of them must not feed a node inside.
    std::vector<bool> reached(topo_->node_count());
    for (auto node = nodes_.front(); node <= nodes_.back(); ++node)
        for (auto edge : topo_->inputs(node)) {
            auto producer = edge == kNoEdge ? kNoNode : topo_->producer(edge).node;
            if (producer == kNoNode) continue;
            if (contains_[node] && reached[producer]) return false;
            if (!contains_[node] && (contains_[producer] || reached[producer])) reached[node] = true;
        }
    return true;
}

SubGraph::Extract SubGraph::extract() const {
    Extract result;
    result.nodes = nodes_;
    std::vector<EdgeIdx> local(topo_->edge_count(), kNoEdge), row;
    auto number = [&](EdgeIdx edge) {
        if (edge == kNoEdge) return kNoEdge;
        if (local[edge] == kNoEdge) {
            local[edge] = static_cast<EdgeIdx>(result.edges.size());
            result.edges.push_back(edge);
        }
        return local[edge];
    };
    auto numbers = [&](std::span<EdgeIdx const> edges) {
        row.clear();
        for (auto edge : edges) row.push_back(number(edge));
        return row;
    };
    auto inputs = numbers(inputs_);
    Rows<EdgeIdx> node_inputs, node_outputs;
    for (auto node : nodes_) {
        node_inputs.push_row(numbers(topo_->inputs(node)));
        node_outputs.push_row(numbers(topo_->outputs(node)));
    }
    auto outputs = numbers(outputs_);
    result.topo = GraphTopo(std::move(node_inputs), std::move(node_outputs), std::move(inputs), std::move(outputs),
                            result.edges.size());
    return result;
}

}  // namespace refactor::graph_topo
