#pragma once
#include "graph_topo/builder.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace refactor::graph_topo::test {

/// A random graph described in a random order: node `i` is called "n<i>", its outputs "<i>.<slot>".
using TextBuilder = Builder<std::string, std::string, int, std::string>;

struct RandomShape {
    uint32_t nodes = 30;
    uint32_t most_inputs = 4, most_outputs = 3;
    bool shuffled = true;
};

inline TextBuilder random_graph(std::mt19937& random, RandomShape shape) {
    auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    TextBuilder builder;
    builder.global_inputs = {"x0", "x1"};
    builder.sources = {"w0", "w1", "w2"};
    std::vector<std::string> known = builder.global_inputs;
    known.insert(known.end(), builder.sources.begin(), builder.sources.end());
    for (uint32_t i = 0; i < shape.nodes; ++i) {
        std::vector<std::string> inputs, outputs;
        for (auto n = below(shape.most_inputs + 1); n > 0; --n)
            inputs.push_back(below(8) == 0 ? ""
                                           : known[known.size() - 1 - below(std::min<uint32_t>(known.size(), 12))]);
        for (auto n = 1 + below(shape.most_outputs), k = 0u; k < n; ++k)
            outputs.push_back(std::to_string(i) + '.' + std::to_string(k));
        known.insert(known.end(), outputs.begin(), outputs.end());
        builder.add("n" + std::to_string(i), static_cast<int>(i), inputs, outputs);
    }
    for (int i = 0; i < 3; ++i) builder.global_outputs.push_back(known[below(static_cast<uint32_t>(known.size()))]);
    if (shape.shuffled) std::shuffle(builder.nodes.begin(), builder.nodes.end(), random);
    return builder;
}

/// `reach[a][b]`: a path of at least one edge leads from node a to node b. By Warshall's algorithm.
inline std::vector<std::vector<bool>> reachability(GraphTopo const& topo) {
    std::vector<std::vector<bool>> reach(topo.node_count(), std::vector<bool>(topo.node_count()));
    for (NodeIdx node = 0; node < topo.node_count(); ++node)
        for (auto edge : topo.inputs(node))
            if (edge != kNoEdge && topo.producer(edge).node != kNoNode) reach[topo.producer(edge).node][node] = true;
    for (size_t k = 0; k < reach.size(); ++k)
        for (size_t i = 0; i < reach.size(); ++i)
            for (size_t j = 0; reach[i][k] && j < reach.size(); ++j)
                if (reach[k][j]) reach[i][j] = true;
    return reach;
}

}  // namespace refactor::graph_topo::test
