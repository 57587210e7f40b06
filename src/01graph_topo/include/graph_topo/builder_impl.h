#pragma once
#include "graph_topo/builder.h"

namespace refactor::graph_topo {

namespace detail {

template <class Key>
std::string key_text(Key const& key) {
    if constexpr (std::is_integral_v<Key>) {
        return std::to_string(key);
    } else {
        return "\"" + std::string(key) + "\"";
    }
}

template <class Key>
std::string join_keys(std::vector<Key> const& keys, char const* separator) {
    std::string text;
    for (auto const& key : keys) text += (text.empty() ? "" : separator) + key_text(key);
    return text;
}

}  // namespace detail

template <class NodeKey, class EdgeKey>
std::string BuildError<NodeKey, EdgeKey>::to_string() const {
    using detail::join_keys, detail::key_text;
    std::string text;
    auto line = [&text](std::string const& problem) { text += (text.empty() ? "" : "\n") + problem; };
    for (auto const& cycle : cycles) line("cycle: " + join_keys(cycle, " -> ") + " -> " + key_text(cycle.front()));
    for (auto const& missing : missing_edges)
        line("input " + std::to_string(missing.slot) + " of node " + key_text(missing.node) + " is edge " +
             key_text(missing.edge) + ", which nothing produces");
    for (auto const& twice : double_edges)
        line("edge " + key_text(twice.edge) + " is produced more than once" +
             (twice.nodes.empty() ? "" : ": by node " + join_keys(twice.nodes, ", ")) +
             (twice.global ? " (it is a graph input or constant)" : ""));
    for (auto const& output : missing_outputs) line("graph output " + key_text(output) + " is not produced");
    return text;
}

template <class NodeKey, class EdgeKey, class Node, class Edge>
// One linear story: numbering, ordering, translation of problems, assembly.
// NOLINTNEXTLINE(readability-function-size)
auto Builder<NodeKey, EdgeKey, Node, Edge>::build() && -> Result<Built, Error> {
    std::unordered_map<EdgeKey, EdgeIdx> ids;
    std::vector<EdgeKey> edge_keys;
    size_t mentions = global_inputs.size() + sources.size();
    for (auto const& item : nodes) mentions += item.outputs.size();
    ids.reserve(mentions), edge_keys.reserve(mentions);
    auto id_of = [&](EdgeKey const& key) {
        auto [it, fresh] = ids.try_emplace(key, static_cast<EdgeIdx>(edge_keys.size()));
        if (fresh) edge_keys.push_back(key);
        return it->second;
    };
    auto ids_of = [&](std::vector<EdgeKey> const& keys) {
        std::vector<EdgeIdx> result;
        result.reserve(keys.size());
        for (auto const& key : keys) result.push_back(id_of(key));
        return result;
    };

    detail::Description dense;
    dense.global_inputs = ids_of(global_inputs), dense.sources = ids_of(sources);
    std::vector<EdgeIdx> row;
    for (auto const& item : nodes) {
        row.clear();
        for (auto const& key : item.inputs) row.push_back(key == omitted ? kNoEdge : id_of(key));
        dense.inputs.push_row(row);
        row.clear();
        for (auto const& key : item.outputs) {
            if (key == omitted) {
                row.push_back(static_cast<EdgeIdx>(edge_keys.size()));
                edge_keys.push_back(omitted);
            } else {
                row.push_back(id_of(key));
            }
        }
        dense.outputs.push_row(row);
    }
    dense.global_outputs = ids_of(global_outputs), dense.edge_count = edge_keys.size();

    auto order = detail::check_and_order(dense);
    if (!order) {
        auto node_keys_of = [&](std::vector<NodeIdx> const& indices) {
            std::vector<NodeKey> keys;
            for (auto i : indices) keys.push_back(nodes[i].key);
            return keys;
        };
        Error error;
        for (auto const& cycle : order.error().cycles) error.cycles.push_back(node_keys_of(cycle));
        for (auto const& m : order.error().missing_edges)
            error.missing_edges.push_back({edge_keys[m.edge], nodes[m.node].key, m.slot});
        for (auto const& d : order.error().double_edges)
            error.double_edges.push_back({edge_keys[d.edge], node_keys_of(d.nodes), d.global});
        for (auto edge : order.error().missing_outputs) error.missing_outputs.push_back(edge_keys[edge]);
        return Err{std::move(error)};
    }

    Built built;
    built.graph.topo = detail::arrange(std::move(dense), *order);
    built.graph.nodes.reserve(nodes.size()), built.node_keys.reserve(nodes.size());
    for (auto i : *order) {
        built.graph.nodes.push_back(std::move(nodes[i].node));
        built.node_keys.push_back(std::move(nodes[i].key));
    }
    built.graph.edges.resize(edge_keys.size());
    for (auto& [key, edge] : edges)
        if (auto it = ids.find(key); it != ids.end()) built.graph.edges[it->second] = std::move(edge);
    built.edge_keys = std::move(edge_keys);
    return built;
}

}  // namespace refactor::graph_topo
