#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "program/plan_build.h"

#include <algorithm>
#include <deque>

namespace refactor::kernel {

using mem_manager::Blob;
using mem_manager::cpu_device;

/// Nodes that need no input of the run: their results follow from the sizes. None at all if what the steps read of them
/// takes more than there is room for.
void PlanBuild::find_ahead() {
    auto const& nodes = parts_.nodes;
    is_known_.assign(parts_.edges.size(), false), ahead_.assign(nodes.size(), false);
    for (uint32_t edge = 0; edge < parts_.edges.size(); ++edge)
        is_known_[edge] = parts_.edges[edge].constant != nullptr;
    if (!room_ahead_ || parts_.device != "cpu") return;
    auto is_output = memory_of_outputs();
    std::vector<uint32_t> memory(parts_.edges.size());  // by edge: whose memory it shares
    for (uint32_t edge = 0; edge < memory.size(); ++edge) memory[edge] = edge;
    std::vector<bool> is_counted(parts_.edges.size());
    size_t kept = 0;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
        auto const& node = nodes[i];
        bool alias = node.kernels.empty();
        auto is_small = [&](uint32_t edge) {
            return edge == kNoEdge ||
                   (!is_output[edge] && bits_of(descs_[edge].dtype) && bytes_of(edge) <= room_ahead_);
        };
        bool known = std::all_of(node.inputs.begin(), node.inputs.end(),
                                 [&](uint32_t edge) { return edge == kNoEdge || is_known_[edge]; });
        ahead_[i] = known && !alias && node.is_pure && std::all_of(node.outputs.begin(), node.outputs.end(), is_small);
        if (alias) memory[node.outputs[0]] = memory[node.inputs[0]];
        for (auto edge : node.outputs)
            if (edge != kNoEdge) is_known_[edge] = ahead_[i] || (alias && known);
        for (auto edge : node.inputs) {
            if (alias || ahead_[i] || edge == kNoEdge || !is_known_[edge]) continue;
            auto root = memory[edge];
            if (parts_.edges[root].constant || is_counted[root]) continue;
            is_counted[root] = true, kept += bytes_of(root);
        }
    }
    if (kept > room_ahead_) room_ahead_ = 0, find_ahead();
}

/// By edge: whether an output of the program shares its memory.
std::vector<bool> PlanBuild::memory_of_outputs() const {
    std::vector<bool> result(parts_.edges.size());
    for (auto edge : parts_.outputs) result[edge] = true;
    for (auto node = parts_.nodes.rbegin(); node != parts_.nodes.rend(); ++node)
        if (node->kernels.empty() && result[node->outputs[0]]) result[node->inputs[0]] = true;
    return result;
}

/// The memory of what is known at `root`, which is no constant of the program.
std::shared_ptr<Blob> const& PlanBuild::made_at(uint32_t root) {
    auto& blob = made_[root];
    auto behind = descs_[root].layout == Layout::Blocked32 ? kReadBehind : 0;
    if (!blob) blob = Blob::make(cpu_device(), bytes_of(root) + behind);
    return blob;
}

void PlanBuild::run_ahead(Bound const& bound) {
    auto const& node = parts_.nodes[bound.node];
    std::vector<void*> arguments;
    std::deque<Blob::Reader> constants;
    auto add = [&](uint32_t edge) {
        auto root = edge == kNoEdge ? kNoEdge : roots_[edge];
        if (root == kNoEdge)
            arguments.push_back(nullptr);
        else if (auto const& constant = parts_.edges[root].constant)
            arguments.push_back(const_cast<void*>(constants.emplace_back(*constant).data()));
        else
            arguments.push_back(made_at(root)->data());
    };
    for (auto edge : node.inputs) add(edge);
    for (auto edge : node.outputs) add(edge);
    auto const& task = *bound.chosen.task;
    auto workspace = Blob::make(cpu_device(), task.workspace_bytes());
    auto scratch = Blob::make(cpu_device(), task.scratch_bytes());
    task.run(arguments.data(), {calling_thread(), static_cast<std::byte*>(workspace->data()), nullptr, nullptr,
                                static_cast<std::byte*>(scratch->data())});
}

/// Does the steps of `ahead_`. False if one of them fails, for data or for memory: a run says where it happened, and
/// may have the memory.
bool PlanBuild::run_ahead() {
    std::vector<uint32_t> readers(parts_.edges.size());  // that have not run, and those that are steps
    for (auto const& bound : bound_)
        for (auto edge : parts_.nodes[bound.node].inputs)
            if (edge != kNoEdge) ++readers[roots_[edge]];
    FlushDenormals flush;
    for (auto const& bound : bound_) {
        if (!ahead_[bound.node]) continue;
        try {
            run_ahead(bound);
        } catch (Error const&) {
            return false;
        }
        auto const& node = parts_.nodes[bound.node];
        for (auto edge : node.inputs)
            if (edge != kNoEdge) --readers[roots_[edge]];
        for (auto edges : {&node.inputs, &node.outputs})
            for (auto edge : *edges)
                if (edge != kNoEdge && !readers[roots_[edge]]) made_[roots_[edge]] = nullptr;
    }
    return true;
}

}  // namespace refactor::kernel
