#pragma once
#include "common/result.h"
#include "graph_topo/graph.h"

#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace refactor::graph_topo {

/// Everything that is wrong with a description of a graph, by the keys of the description.
template <class NodeKey, class EdgeKey>
struct BuildError {
    struct MissingEdge {
        EdgeKey edge;
        NodeKey node;   ///< that reads it
        uint32_t slot;  ///< of that node's inputs
    };
    struct DoubleEdge {
        EdgeKey edge;
        std::vector<NodeKey> nodes;  ///< that produce it, in input order
        bool global = false;         ///< it is a global input or a source as well, or is listed twice among them
    };
    /// One cycle of every group of mutually dependent nodes, each in the direction of the data.
    std::vector<std::vector<NodeKey>> cycles;
    std::vector<MissingEdge> missing_edges;  ///< used, but nobody produces them
    std::vector<DoubleEdge> double_edges;    ///< produced more than once
    std::vector<EdgeKey> missing_outputs;    ///< global outputs that nobody produces

    bool empty() const {
        return cycles.empty() && missing_edges.empty() && double_edges.empty() && missing_outputs.empty();
    }
    /// One problem a line; for keys that are strings or integers.
    std::string to_string() const;
};

namespace detail {

/// A description of a graph in dense numbers; outputs are never `kNoEdge`.
struct Description {
    Rows<EdgeIdx> inputs, outputs;
    std::vector<EdgeIdx> global_inputs, sources, global_outputs;
    size_t edge_count = 0;
};
/// A topological order that is the order of description wherever that is legal, or the problems.
using DenseError = BuildError<NodeIdx, EdgeIdx>;
Result<std::vector<NodeIdx>, DenseError> check_and_order(Description const&);
/// The topology of `description` with its nodes in `order`; edges keep their numbers.
GraphTopo arrange(Description&& description, std::vector<NodeIdx> const& order);

}  // namespace detail

/// From keyed nodes in any order to a `Graph`, in O(V + E) and without recursion. Deterministic: nodes keep the order
/// in which they were added unless a node reads what a later one produces, which is then moved before it; edges are
/// numbered in order of first mention.
///
/// Node keys only label nodes in errors and need not be unique. Example: `y = f(x, w)`:
///
///     Builder<std::string, std::string, Op, Tensor> builder;
///     builder.global_inputs = {"x"};
///     builder.sources = {"w"};
///     builder.add("f0", Op{...}, {"x", "w"}, {"y"});
///     builder.global_outputs = {"y"};
///     auto built = std::move(builder).build();       // built->graph, built->edge_keys, or built.error()
template <class NodeKey, class EdgeKey, class Node, class Edge>
struct Builder {
    struct Item {
        NodeKey key;
        Node node;
        std::vector<EdgeKey> inputs, outputs;
    };
    struct Built {
        Graph<Node, Edge> graph;
        std::vector<NodeKey> node_keys;  ///< by node index
        std::vector<EdgeKey> edge_keys;  ///< by edge index; `omitted` for an edge made for an omitted output
    };
    using Error = BuildError<NodeKey, EdgeKey>;

    std::vector<Item> nodes;
    /// Edges that exist without a producer: `global_inputs` are set for every run, `sources` are constants. In both: an
    /// error.
    std::vector<EdgeKey> global_inputs, sources, global_outputs;
    /// Data of edges; an edge that is not listed gets `Edge{}`, and a listed one that no one mentions is dropped.
    std::unordered_map<EdgeKey, Edge> edges;
    /// Stands for an omitted input (becomes `kNoEdge`) or output (becomes an edge without uses).
    EdgeKey omitted{};

    void add(NodeKey key, Node node, std::vector<EdgeKey> inputs, std::vector<EdgeKey> outputs) {
        nodes.push_back({std::move(key), std::move(node), std::move(inputs), std::move(outputs)});
    }
    Result<Built, Error> build() &&;
};

}  // namespace refactor::graph_topo

#include "graph_topo/builder_impl.h"
