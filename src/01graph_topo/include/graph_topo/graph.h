#pragma once
#include "graph_topo/graph_topo.h"

#include <utility>
#include <vector>

namespace refactor::graph_topo {

/// A topology together with what its nodes and edges mean: `nodes[i]` belongs to node `i`, `edges[i]` to edge `i`.
template <class Node, class Edge>
struct Graph {
    GraphTopo topo;
    std::vector<Node> nodes;
    std::vector<Edge> edges;
};

}  // namespace refactor::graph_topo
