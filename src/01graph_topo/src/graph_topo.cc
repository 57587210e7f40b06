#include "graph_topo/graph_topo.h"

#include "common/error.h"

namespace refactor::graph_topo {

GraphTopo::GraphTopo(Rows<EdgeIdx> inputs, Rows<EdgeIdx> outputs, std::vector<EdgeIdx> global_inputs,
                     std::vector<EdgeIdx> global_outputs, size_t edge_count)
    : inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      global_inputs_(std::move(global_inputs)),
      global_outputs_(std::move(global_outputs)),
      producers_(edge_count) {
    ensure(inputs_.size() == outputs_.size(), "GraphTopo: every node has a row of inputs and a row of outputs");
    auto known = [&](EdgeIdx edge) { ensure(edge < edge_count, "GraphTopo: an edge index is out of range"); };
    for (auto edge : global_inputs_) known(edge);
    for (auto edge : global_outputs_) known(edge);
    std::vector<uint32_t> uses(edge_count + 1);
    for (NodeIdx node = 0; node < node_count(); ++node) {
        auto row = this->outputs(node);
        for (uint32_t slot = 0; slot < row.size(); ++slot) {
            known(row[slot]);
            ensure(producers_[row[slot]].node == kNoNode, "GraphTopo: an edge has two producers");
            producers_[row[slot]] = {node, slot};
        }
        for (auto edge : this->inputs(node)) {
            if (edge == kNoEdge) continue;
            known(edge);
            ++uses[edge];
        }
    }
    consumers_.starts.resize(edge_count + 1);
    for (size_t edge = 0; edge < edge_count; ++edge) consumers_.starts[edge + 1] = consumers_.starts[edge] + uses[edge];
    consumers_.values.resize(consumers_.starts.back());
    auto next = consumers_.starts;
    for (NodeIdx node = 0; node < node_count(); ++node) {
        auto row = this->inputs(node);
        for (uint32_t slot = 0; slot < row.size(); ++slot) {
            if (row[slot] == kNoEdge) continue;
            auto producer = producers_[row[slot]].node;
            ensure(producer == kNoNode || producer < node, "GraphTopo: the nodes are not in topological order");
            consumers_.values[next[row[slot]]++] = {node, slot};
        }
    }
}

}  // namespace refactor::graph_topo
