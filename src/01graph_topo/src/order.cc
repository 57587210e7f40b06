#include "graph_topo/order.h"

#include <algorithm>

namespace refactor::graph_topo::detail {

namespace {

/// A node on the path of a depth-first walk and how many of its dependencies were visited.
struct Visit {
    NodeIdx node;
    uint32_t next = 0;
};

/// Tarjan's strongly connected components ("Depth-first search and linear graph algorithms", 1972) with an explicit
/// stack.
class Components {
    Rows<NodeIdx> const& dependencies_;
    std::vector<uint32_t> number_, low_;
    std::vector<NodeIdx> stack_;
    std::vector<Visit> path_;
    uint32_t visited_ = 0;

    void enter(NodeIdx node) {
        number_[node] = low_[node] = ++visited_;
        stack_.push_back(node);
        path_.push_back({node});
    }
    void close(NodeIdx node) {
        if (low_[node] != number_[node]) return;
        for (auto popped = kNoNode; popped != node; stack_.pop_back()) {
            popped = stack_.back();
            component[popped] = count;
        }
        ++count;
    }
    void walk() {
        while (!path_.empty()) {
            auto& [node, next] = path_.back();
            auto row = dependencies_[node];
            if (next == row.size()) {
                auto done = node;
                path_.pop_back();
                close(done);
                if (!path_.empty()) low_[path_.back().node] = std::min(low_[path_.back().node], low_[done]);
                continue;
            }
            auto other = row[next++];
            if (other == kNoNode) continue;
            if (!number_[other])
                enter(other);
            else if (component[other] == UINT32_MAX)
                low_[node] = std::min(low_[node], number_[other]);
        }
    }

public:
    std::vector<uint32_t> component;  ///< by node
    uint32_t count = 0;

    explicit Components(Rows<NodeIdx> const& dependencies)
        : dependencies_(dependencies),
          number_(dependencies.size()),
          low_(dependencies.size()),
          component(dependencies.size(), UINT32_MAX) {
        for (NodeIdx node = 0; node < dependencies.size(); ++node) {
            if (number_[node]) continue;
            enter(node);
            walk();
        }
    }
};

}  // namespace

std::vector<NodeIdx> stable_order(Rows<NodeIdx> const& dependencies) {
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> state(dependencies.size(), kNew);
    std::vector<NodeIdx> order;
    order.reserve(dependencies.size());
    std::vector<Visit> path;
    for (NodeIdx start = 0; start < dependencies.size(); ++start) {
        if (state[start] != kNew) continue;
        state[start] = kOpen;
        path.push_back({start});
        while (!path.empty()) {
            auto& [node, next] = path.back();
            auto row = dependencies[node];
            while (next < row.size() && (row[next] == kNoNode || state[row[next]] == kDone)) ++next;
            if (next == row.size()) {
                state[node] = kDone;
                order.push_back(node);
                path.pop_back();
                continue;
            }
            auto other = row[next];
            if (state[other] == kOpen) return order;
            state[other] = kOpen;
            path.push_back({other});
        }
    }
    return order;
}

std::vector<std::vector<NodeIdx>> find_cycles(Rows<NodeIdx> const& dependencies) {
    Components components(dependencies);
    std::vector<std::vector<NodeIdx>> cycles;
    std::vector<bool> seen(components.count), on_path(dependencies.size());
    for (NodeIdx start = 0; start < dependencies.size(); ++start) {
        auto component = components.component[start];
        if (seen[component]) continue;
        seen[component] = true;
        // Inside a component with a cycle every node depends on another node of it, so the walk meets itself.
        std::vector<NodeIdx> path;
        auto node = start;
        while (node != kNoNode && !on_path[node]) {
            on_path[node] = true;
            path.push_back(node);
            auto row = dependencies[node];
            auto inside = std::find_if(row.begin(), row.end(), [&](NodeIdx other) {
                return other != kNoNode && components.component[other] == component;
            });
            node = inside == row.end() ? kNoNode : *inside;
        }
        if (node == kNoNode) continue;
        std::vector<NodeIdx> cycle(std::find(path.begin(), path.end(), node), path.end());
        std::reverse(cycle.begin(), cycle.end());
        cycles.push_back(std::move(cycle));
    }
    return cycles;
}

}  // namespace refactor::graph_topo::detail
