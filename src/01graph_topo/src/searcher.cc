#include "graph_topo/searcher.h"

#include <algorithm>

namespace refactor::graph_topo {

namespace {

void push_unique(Rows<NodeIdx>& rows, std::vector<NodeIdx>& row) {
    std::sort(row.begin(), row.end());
    row.erase(std::unique(row.begin(), row.end()), row.end());
    rows.push_row(row);
}

}  // namespace

Searcher::Searcher(GraphTopo const& topo) : topo_(&topo), output_uses_(topo.edge_count()) {
    std::vector<NodeIdx> row;
    for (NodeIdx node = 0; node < topo.node_count(); ++node) {
        row.clear();
        for (auto edge : topo.inputs(node))
            if (edge != kNoEdge && topo.producer(edge).node != kNoNode) row.push_back(topo.producer(edge).node);
        push_unique(predecessors_, row);
        row.clear();
        for (auto edge : topo.outputs(node))
            for (auto port : topo.consumers(edge)) row.push_back(port.node);
        push_unique(successors_, row);
    }
    for (auto edge : topo.global_outputs()) ++output_uses_[edge];
}

std::vector<bool> live_nodes(GraphTopo const& topo) {
    std::vector<bool> live(topo.node_count()), wanted(topo.edge_count());
    for (auto edge : topo.global_outputs()) wanted[edge] = true;
    for (auto node = static_cast<NodeIdx>(topo.node_count()); node-- > 0;) {
        for (auto edge : topo.outputs(node)) live[node] = live[node] || wanted[edge];
        if (!live[node]) continue;
        for (auto edge : topo.inputs(node))
            if (edge != kNoEdge) wanted[edge] = true;
    }
    return live;
}

}  // namespace refactor::graph_topo
