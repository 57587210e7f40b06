#include "graph_topo/partition.h"

#include "common/error.h"
#include "graph_topo/searcher.h"

#include <algorithm>

namespace refactor::graph_topo {

namespace {

/// Runs the nodes in a legal order that stays with one colour as long as a node of it is ready; each stay is a part.
class Scheduler {
    Searcher const& graph_;
    std::span<uint32_t const> colours_;
    std::vector<uint32_t> waiting_;
    std::vector<std::vector<NodeIdx>> ready_;  ///< by colour
    std::vector<NodeIdx> earliest_;            ///< of `ready_`, by colour
    size_t left_;

    void make_ready(NodeIdx node) {
        ready_[colours_[node]].push_back(node);
        earliest_[colours_[node]] = std::min(earliest_[colours_[node]], node);
    }
    void drain(uint32_t colour) {
        auto& queue = ready_[colour];
        auto part = static_cast<uint32_t>(part_colours.size());
        part_colours.push_back(colour);
        while (!queue.empty()) {
            auto node = queue.back();
            queue.pop_back();
            part_of[node] = part, --left_;
            for (auto next : graph_.successors(node))
                if (--waiting_[next] == 0) make_ready(next);
        }
        earliest_[colour] = kNoNode;
    }
    /// The colour with the earliest ready node.
    uint32_t next_colour() const {
        return static_cast<uint32_t>(std::min_element(earliest_.begin(), earliest_.end()) - earliest_.begin());
    }

public:
    std::vector<uint32_t> part_of, part_colours;

    Scheduler(Searcher const& graph, std::span<uint32_t const> colours, uint32_t colour_count)
        : graph_(graph),
          colours_(colours),
          waiting_(colours.size()),
          ready_(colour_count),
          earliest_(colour_count, kNoNode),
          left_(colours.size()),
          part_of(colours.size()) {
        for (NodeIdx node = 0; node < colours.size(); ++node) {
            waiting_[node] = static_cast<uint32_t>(graph.predecessors(node).size());
            if (!waiting_[node]) make_ready(node);
        }
    }
    /// False if no node of colour `first` can come first.
    bool run(uint32_t first) {
        if (ready_[first].empty()) return false;
        for (drain(first); left_;) drain(next_colour());
        return true;
    }
};

}  // namespace

Partitioning partition_convex(GraphTopo const& topo, std::span<uint32_t const> colours) {
    ensure(colours.size() == topo.node_count(), "partition_convex: there must be one colour for each node");
    Partitioning result;
    if (colours.empty()) return result;
    Searcher graph(topo);
    auto count = *std::max_element(colours.begin(), colours.end()) + 1;
    bool found = false;
    for (uint32_t first = 0; first < count; ++first) {
        Scheduler scheduler(graph, colours, count);
        if (!scheduler.run(first) || (found && scheduler.part_colours.size() >= result.colours.size())) continue;
        found = true;
        result.part_of = std::move(scheduler.part_of), result.colours = std::move(scheduler.part_colours);
    }
    auto& starts = result.parts.starts;
    starts.assign(result.colours.size() + 1, 0);
    for (auto part : result.part_of) ++starts[part + 1];
    for (size_t part = 0; part < result.colours.size(); ++part) starts[part + 1] += starts[part];
    result.parts.values.resize(colours.size());
    auto next = starts;
    for (NodeIdx node = 0; node < colours.size(); ++node) result.parts.values[next[result.part_of[node]]++] = node;
    return result;
}

}  // namespace refactor::graph_topo
