#pragma once
#include "pass.h"

namespace refactor::computation {

/// What one device computes of a graph.
struct Piece {
    Model model;
    bool on_host = false;
    std::vector<uint32_t> inputs, outputs;  ///< numbers of values, as in `CompiledPart`
};

/// Cuts the graph so that nodes that no kernel of the device computes are on the host, into pieces that can run one
/// after the other, as few as a greedy order finds (`graph_topo::partition_convex`). Says in `report` what is on the
/// host and why, and which values are copied. Empty: the device computes everything.
std::vector<Piece> cut_by_device(Model const& model, PassContext const& context, mem_manager::Device& place,
                                 PassReport& report, uint32_t& values);

}  // namespace refactor::computation
