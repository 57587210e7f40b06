#pragma once
#include <cstdint>
#include <vector>

namespace refactor::computation {

/// Minimum s-t cut of a directed graph with real capacities by Dinic's algorithm. Terminals are vertices 0 (source) and
/// 1 (sink).
class MinimumCut {
    struct Arc {
        uint32_t to;
        double capacity;
    };
    std::vector<Arc> arcs_;  ///< arc i and its reverse i ^ 1
    std::vector<std::vector<uint32_t>> out_{2};
    std::vector<uint32_t> level_, next_;

    bool number_levels();
    double push();

public:
    static constexpr uint32_t kSource = 0, kSink = 1;
    static constexpr double kUncuttable = 1e30;

    uint32_t add_vertex();
    /// `capacity` is paid if `from` ends on the source's side and `to` on the sink's.
    void add_arc(uint32_t from, uint32_t to, double capacity);
    /// Solves; `side[v]` is true for vertices on the source's side (the smallest such set).
    std::vector<bool> solve();
};

}  // namespace refactor::computation
