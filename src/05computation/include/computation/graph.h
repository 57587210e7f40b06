#pragma once
#include "common/dim_expr.h"
#include "computation/operator.h"
#include "graph_topo/linked_graph.h"
#include "kernel/program.h"

namespace refactor::computation {

struct Node {
    std::string name;  ///< of the model's node, for people
    std::shared_ptr<Operator const> op;
};

struct Edge {
    std::string name;
    DataType dtype = DataType::Undefined;
    Shape shape;
    kernel::Layout layout = kernel::Layout::Plain;
    std::shared_ptr<mem_manager::Blob const> constant;  ///< row-major host data; such an edge is a source of the graph
    bool keep = false;                                  ///< a user asked for this tensor: passes must leave it in place
};

}  // namespace refactor::computation

// Compiled once, in graph.cc.
extern template class refactor::graph_topo::LinkedGraph<refactor::computation::Node, refactor::computation::Edge>;

namespace refactor::computation {

using Graph = graph_topo::LinkedGraph<Node, Edge>;
using NodePtr = Graph::NodePtr;
using EdgePtr = Graph::EdgePtr;

/// A graph with the symbols that its shapes use; names of global inputs and outputs are those of their edges.
struct Model {
    Graph graph;
    SymbolTable symbols;
    /// Names of the outputs in order: they may differ from the edge's, which may be listed more than once.
    std::vector<std::string> output_names;
    std::vector<kernel::SizeCondition> conditions{};
};

/// Convenience for passes: the info of the operator that makes `edge`, or null.
template <class Info>
Info const* producer_info(EdgePtr edge) {
    return edge && edge->producer() ? info_of<Info>(*edge->producer()->value.op) : nullptr;
}

/// Text of a graph, one line a node: `name = Type{attributes}(inputs) : f32[N, 3, 224, 224]`.
std::string to_string(Graph&, SymbolTable const&);

}  // namespace refactor::computation
