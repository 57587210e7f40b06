#include "passes/minimum_cut.h"

#include <algorithm>
#include <limits>

namespace refactor::computation {

namespace {
constexpr uint32_t kUnreached = UINT32_MAX;
/// Capacities are sums of byte counts: what is left below this is rounding.
constexpr double kRest = 1e-6;
}  // namespace

uint32_t MinimumCut::add_vertex() {
    out_.emplace_back();
    return static_cast<uint32_t>(out_.size() - 1);
}

void MinimumCut::add_arc(uint32_t from, uint32_t to, double capacity) {
    out_[from].push_back(static_cast<uint32_t>(arcs_.size()));
    arcs_.push_back({to, capacity});
    out_[to].push_back(static_cast<uint32_t>(arcs_.size()));
    arcs_.push_back({from, 0});
}

bool MinimumCut::number_levels() {
    level_.assign(out_.size(), kUnreached);
    std::vector<uint32_t> queue{kSource};
    level_[kSource] = 0;
    for (size_t head = 0; head < queue.size(); ++head)
        for (auto i : out_[queue[head]]) {
            auto const& arc = arcs_[i];
            if (arc.capacity <= kRest || level_[arc.to] != kUnreached) continue;
            level_[arc.to] = level_[queue[head]] + 1;
            queue.push_back(arc.to);
        }
    return level_[kSink] != kUnreached;
}

/// One augmenting path along the levels; 0 if there is none left.
double MinimumCut::push() {
    std::vector<uint32_t> path;
    uint32_t at = kSource;
    while (at != kSink) {
        if (next_[at] == out_[at].size()) {
            if (path.empty()) return 0;
            at = arcs_[path.back() ^ 1].to;
            path.pop_back();
            ++next_[at];
            continue;
        }
        auto i = out_[at][next_[at]];
        if (arcs_[i].capacity > kRest && level_[arcs_[i].to] == level_[at] + 1) {
            path.push_back(i);
            at = arcs_[i].to;
        } else {
            ++next_[at];
        }
    }
    double flow = std::numeric_limits<double>::infinity();
    for (auto i : path) flow = std::min(flow, arcs_[i].capacity);
    for (auto i : path) arcs_[i].capacity -= flow, arcs_[i ^ 1].capacity += flow;
    return flow;
}

std::vector<bool> MinimumCut::solve() {
    while (number_levels()) {
        next_.assign(out_.size(), 0);
        while (push() > 0) {
        }
    }
    std::vector<bool> side(out_.size());
    for (size_t v = 0; v < side.size(); ++v) side[v] = level_[v] != kUnreached;
    return side;
}

}  // namespace refactor::computation
