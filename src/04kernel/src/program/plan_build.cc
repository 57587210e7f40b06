#include "program/plan_build.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "mem_manager/memory_planner.h"
#include "program/part_placement.h"
#include "runtime/value.h"

#include <algorithm>
#include <chrono>

namespace refactor::kernel {

using runtime::kNoTensor;
using runtime::Storage;

namespace {

/// 2^47 bytes: the address space of a process; no allocation beyond it can succeed.
constexpr int64_t kMostBytes = int64_t(1) << 47;
/// Bytes of weights whose packing (about 1 ms) outweighs starting threads.
constexpr size_t kWorthThreads = size_t(1) << 22;
/// Hundreds of nodes whose code is known are bound in less; a device's library compiles one for up to seconds.
constexpr auto kLongBinding = std::chrono::milliseconds(5);

}  // namespace

PlanBuild::PlanBuild(ProgramParts const& parts, SizeTable const& sizes, PackCache& packs, size_t room_ahead)
    : parts_(parts),
      sizes_(sizes),
      packs_(packs),
      choice_(parts),
      room_ahead_(room_ahead),
      made_(parts.edges.size()),
      plan_(std::make_shared<runtime::Plan>()) {}

std::string PlanBuild::where(uint32_t node) const {
    return parts_.nodes[node].type + " node \"" + parts_.nodes[node].name + '"';
}

std::shared_ptr<runtime::Plan const> PlanBuild::build() {
    fill_descs();
    find_ahead();
    bind_nodes();
    if (!run_ahead()) return nullptr;
    fill_steps();
    fill_blocks();
    fill_tensors();
    fill_overwrites();
    return std::move(plan_);
}

/// A model may ask for far more than it holds (Expand, ConstantOfShape): better refused than the machine brought to its
/// knees.
void PlanBuild::check_bytes(uint32_t edge, size_t limit) const {
    auto bytes = bytes_of(edge);
    if (bytes <= limit || parts_.edges[edge].constant) return;
    throw OutOfMemory("tensor \"" + parts_.edges[edge].name + "\" would take " + std::to_string(bytes) +
                      " bytes, the limit is " + std::to_string(limit) + " (max_tensor_bytes)");
}

/// Sizes that do not broadcast have no value, and a size may turn out negative.
void PlanBuild::refuse_size(uint32_t edge, int64_t size) const {
    std::string text, operands;
    for (uint32_t node = 0; node < parts_.nodes.size(); ++node) {
        auto const& n = parts_.nodes[node];
        if (std::find(n.outputs.begin(), n.outputs.end(), edge) == n.outputs.end()) continue;
        text = where(node) + ": ";
        for (auto input : n.inputs) {
            if (input == kNoEdge) continue;
            Dims dims;
            for (auto i = sizes_.edge_slots[input]; i < sizes_.edge_slots[input + 1]; ++i)
                dims.push_back(sizes_.values[sizes_.slots[i]]);
            operands +=
                (operands.empty() ? " of operands " : ", ") + runtime::describe(parts_.edges[input].dtype, dims);
        }
    }
    throw InvalidInput(text + "tensor \"" + parts_.edges[edge].name + "\" of shape " +
                       refactor::to_string(parts_.edges[edge].shape, parts_.symbols) +
                       (size == kUnbound ? " has no value" : " gets the negative size " + std::to_string(size)) +
                       " for these input shapes" + operands);
}

void PlanBuild::fill_descs() {
    auto edges = parts_.edges.size();
    static auto const kQuarter = mem_manager::cpu_device().memory().total / 4;
    auto limit = parts_.max_tensor_bytes ? parts_.max_tensor_bytes : kQuarter;
    descs_.resize(edges), roots_.resize(edges), offsets_.resize(edges);
    for (uint32_t edge = 0; edge < edges; ++edge) {
        auto& desc = descs_[edge];
        desc.dtype = parts_.edges[edge].dtype, desc.layout = parts_.edges[edge].layout;
        int64_t bytes = 16;
        for (auto i = sizes_.edge_slots[edge]; i < sizes_.edge_slots[edge + 1]; ++i) {
            auto size = sizes_.values[sizes_.slots[i]];
            if (size == kUnbound || size < 0) refuse_size(edge, size);
            desc.dims.push_back(size);
            if (size && __builtin_mul_overflow(bytes, size, &bytes)) bytes = kMostBytes + 1;
            if (bytes > kMostBytes)
                throw OutOfMemory("tensor \"" + parts_.edges[edge].name + "\" would take more than 2^47 bytes");
        }
        check_bytes(edge, limit);
    }
}

size_t PlanBuild::bytes_of(uint32_t edge) const {
    return storage_bytes(descs_[edge].dtype, descs_[edge].stored_count());
}

/// Whether the elements are as many is known only now where sizes are symbols.
void PlanBuild::check_alias(uint32_t node) const {
    auto const &from = parts_.nodes[node].inputs[0], &to = parts_.nodes[node].outputs[0];
    if (bytes_of(from) == bytes_of(to)) return;
    auto text = [&](uint32_t edge) { return runtime::describe(descs_[edge].dtype, descs_[edge].dims); };
    throw InvalidInput(where(node) + ": " + text(from) + " cannot become " + text(to));
}

/// Decides where all tensors are; the nodes that have nothing to do then.
std::vector<bool> PlanBuild::place_parts() {
    for (uint32_t node = 0; node < parts_.nodes.size(); ++node)
        if (parts_.nodes[node].kernels.empty()) check_alias(node);
    PartPlacement placement(parts_, sizes_, descs_, is_known_);
    placement.run();
    for (uint32_t edge = 0; edge < parts_.edges.size(); ++edge) {
        auto place = placement.place_of(edge);
        roots_[edge] = place.root, offsets_[edge] = place.offset;
    }
    std::vector<bool> needless;
    for (uint32_t node = 0; node < parts_.nodes.size(); ++node)
        needless.push_back(parts_.nodes[node].kernels.empty() || placement.is_needless(node));
    return needless;
}

/// Nodes that execute, with their tasks. In order, or on all threads where weights are to be packed or code is to be
/// compiled: that takes far longer than binding.
void PlanBuild::bind_nodes() {
    auto needless = place_parts();
    for (uint32_t node = 0; node < parts_.nodes.size(); ++node) {
        auto const& n = parts_.nodes[node];
        bool empty = true;
        for (auto edge : n.outputs) empty &= edge == kNoEdge || descs_[edge].count() == 0;
        if (!empty && !needless[node]) bound_.push_back({node, {}});
    }
    auto first = packs_weights() ? 0 : bind_in_order();
    if (first == bound_.size()) return;
    ThreadPool(parts_.threads).parallel_for(static_cast<int64_t>(bound_.size() - first), [&](int64_t i, int) {
        bind(bound_[first + static_cast<size_t>(i)]);
    });
}

/// How many are bound: all of them, unless it turns out that a device's code has to be compiled.
size_t PlanBuild::bind_in_order() {
    bool shares = parts_.device != "cpu" && parts_.threads > 1 && choice_.is_concurrent();
    auto begin = std::chrono::steady_clock::now();
    size_t count = 0;
    while (count < bound_.size()) {
        bind(bound_[count++]);
        if (shares && std::chrono::steady_clock::now() - begin > kLongBinding) break;
    }
    return count;
}

bool PlanBuild::packs_weights() const {
    if (parts_.threads == 1 || !choice_.is_concurrent() || parts_.device != "cpu" || packs_.bytes() > 0) return false;
    size_t bytes = 0;
    for (auto const& edge : parts_.edges) bytes += edge.constant ? edge.constant->bytes() : 0;
    return bytes >= kWorthThreads;
}

void PlanBuild::bind(Bound& bound) {
    auto const& n = parts_.nodes[bound.node];
    SmallVector<TensorDesc const*, 16> operands;
    for (auto edge : n.inputs) operands.push_back(edge == kNoEdge ? nullptr : &descs_[edge]);
    for (auto edge : n.outputs) operands.push_back(edge == kNoEdge ? nullptr : &descs_[edge]);
    SmallVector<int64_t, 16> params;
    for (auto i = sizes_.node_slots[bound.node]; i < sizes_.node_slots[bound.node + 1]; ++i) {
        params.push_back(sizes_.values[sizes_.slots[i]]);
        if (params.back() == kUnbound)
            throw InvalidInput(where(bound.node) + ": parameter " +
                               n.params[params.size() - 1].to_string(parts_.symbols) +
                               " has no value for these input shapes");
    }
    std::span<TensorDesc const* const> all(operands);
    int threads = ahead_[bound.node] ? 1 : parts_.threads;
    auto chosen =
        choice_.choose(n, {all.first(n.inputs.size()), all.subspan(n.inputs.size()), params, packs_, threads});
    if (!chosen) throw Unsupported(where(bound.node) + ": no kernel accepts these shapes:" + chosen.error());
    bound.chosen = std::move(chosen).value();
}

void PlanBuild::fill_steps() {
    plan_->steps.reserve(bound_.size()), plan_->tasks.reserve(bound_.size()), plan_->kernel_ids.reserve(bound_.size());
    tensors_.assign(parts_.edges.size(), kNoTensor);
    for (auto& bound : bound_) {
        if (ahead_[bound.node]) continue;
        auto const& n = parts_.nodes[bound.node];
        runtime::Step step;
        step.node = bound.node, step.task = bound.chosen.task.get(), step.alone = bound.chosen.alone;
        step.kernel = static_cast<uint32_t>(plan_->kernel_ids.size());
        step.first_argument = static_cast<uint32_t>(plan_->arguments.size());
        step.inputs = static_cast<uint32_t>(n.inputs.size()), step.outputs = static_cast<uint32_t>(n.outputs.size());
        for (auto edge : n.inputs) plan_->arguments.push_back(edge == kNoEdge ? kNoTensor : tensor_of(edge));
        for (auto edge : n.outputs) plan_->arguments.push_back(edge == kNoEdge ? kNoTensor : tensor_of(edge));
        plan_->kernel_ids.push_back(bound.chosen.kernel->id());
        plan_->tasks.push_back(std::move(bound.chosen.task));
        plan_->steps.push_back(step);
    }
}

/// Lifetimes of everything that needs memory of its own: tensors that no input, output or constant holds, and
/// workspaces.
void PlanBuild::fill_blocks() {
    auto& plan = *plan_;
    std::vector<bool> elsewhere(parts_.edges.size());
    for (auto edge : parts_.inputs) elsewhere[edge] = true;
    for (auto edge : parts_.outputs) elsewhere[roots_[edge]] = true;
    std::vector<mem_manager::Lifetime> lives;
    blocks_.assign(parts_.edges.size(), kNoTensor);
    plan.workspace_blocks.assign(plan.steps.size(), kNoTensor);
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
        auto const& step = plan.steps[i];
        auto const& node = parts_.nodes[step.node];
        auto touch = [&](uint32_t edge, uint32_t& block) {
            auto root = edge == kNoEdge ? kNoEdge : roots_[edge];
            if (root == kNoEdge || elsewhere[root] || is_known_[root]) return false;
            bool fresh = blocks_[root] == kNoTensor;
            if (fresh) {
                blocks_[root] = static_cast<uint32_t>(lives.size());
                lives.push_back({bytes_of(root), i, i, mem_manager::kNoReuse});
            }
            block = blocks_[root];
            lives[block].last_step = i;
            return fresh;
        };
        uint32_t block = kNoTensor;
        for (auto edge : node.inputs) touch(edge, block);
        for (auto edge : node.outputs)
            if (touch(edge, block) && edge == node.outputs[0]) reuse_candidates_.push_back({i, block});
        plan.scratch_bytes = std::max(plan.scratch_bytes, step.task->scratch_bytes());
        if (auto bytes = step.task->workspace_bytes()) {
            // Blocks begin at multiples of 64 bytes; the executor moves on to the next place that will do.
            if (parts_.device != "cpu") bytes += runtime::kDeviceWorkspaceAlignment - 64;
            plan.workspace_blocks[i] = static_cast<uint32_t>(lives.size());
            lives.push_back({bytes, i, i, mem_manager::kNoReuse});
        }
    }
    for (auto [i, block] : reuse_candidates_) {
        auto const& step = plan.steps[i];
        auto const& inputs = parts_.nodes[step.node].inputs;
        auto allowed = step.task->in_place_inputs();
        for (uint32_t k = 0; allowed && k < inputs.size() && k < 64; ++k) {
            if (!(allowed >> k & 1) || inputs[k] == kNoEdge || !may_overwrite(i, k)) continue;
            auto candidate = blocks_[roots_[inputs[k]]];
            if (candidate == kNoTensor || lives[candidate].last_step != i ||
                lives[candidate].bytes < lives[block].bytes)
                continue;
            lives[block].reuse = candidate;
            break;
        }
    }
    auto memory = mem_manager::plan_memory(lives);
    plan.arena_bytes = memory.peak_bytes, plan.lower_bound = memory.lower_bound;
    auto is_read_behind = [](TensorDesc const& desc) { return desc.layout == Layout::Blocked32; };
    if (std::any_of(descs_.begin(), descs_.end(), is_read_behind)) plan.arena_bytes += kReadBehind;
    plan.blocks.reserve(lives.size());
    for (size_t i = 0; i < lives.size(); ++i)
        plan.blocks.push_back({lives[i].bytes, memory.offsets[i], lives[i].first_step, lives[i].last_step});
}

bool PlanBuild::is_whole(uint32_t edge) const {
    return offsets_[edge] == 0 && bytes_of(edge) == bytes_of(roots_[edge]);
}

/// Neither the output nor the input is a part of something, and no other input is a part of that one.
bool PlanBuild::may_overwrite(uint32_t step, uint32_t input) const {
    auto const& node = parts_.nodes[plan_->steps[step].node];
    auto edge = node.inputs[input];
    if (!is_whole(edge) || !is_whole(node.outputs[0])) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](uint32_t other) {
        return other == kNoEdge || roots_[other] != roots_[edge] || is_whole(other);
    });
}

void PlanBuild::fill_tensors() {
    auto& plan = *plan_;
    for (auto edge : parts_.inputs) plan.inputs.push_back(tensor_of(edge));
    for (auto edge : parts_.outputs) plan.outputs.push_back(tensor_of(edge));
    std::vector<uint32_t> input_numbers(parts_.edges.size(), kNoTensor), output_numbers(parts_.edges.size(), kNoTensor);
    for (uint32_t i = 0; i < parts_.inputs.size(); ++i) input_numbers[parts_.inputs[i]] = i;
    for (uint32_t i = 0; i < parts_.outputs.size(); ++i) output_numbers[roots_[parts_.outputs[i]]] = i;
    for (auto& tensor : plan.tensors) {
        auto root = roots_[tensor.edge];
        if (input_numbers[root] != kNoTensor) {
            tensor.storage = Storage::Input, tensor.index = input_numbers[root];
        } else if (output_numbers[root] != kNoTensor) {
            tensor.storage = Storage::Output, tensor.index = output_numbers[root];
        } else if (auto const& constant = parts_.edges[root].constant) {
            tensor.storage = Storage::Constant, tensor.constant = constant.get();
        } else if (is_known_[root]) {
            tensor.storage = Storage::Constant, tensor.constant = made_at(root).get();
        } else {
            tensor.storage = Storage::Arena, tensor.index = blocks_[root], tensor.offset = offsets_[tensor.edge];
        }
    }
    for (auto const& blob : made_)
        if (blob) plan.made.push_back(blob), plan.made_bytes += blob->bytes();
    for (auto const& step : plan.steps)
        for (uint32_t i = 0; i < step.inputs; ++i) {
            auto number = plan.arguments[step.first_argument + i];
            if (number == kNoTensor || (i < 64 && step.task->unread_inputs() >> i & 1)) continue;
            auto& tensor = plan.tensors[number];
            tensor.is_read = true;
            if (!tensor.constant || parts_.device != "cpu") continue;
            bool any_address = i < 64 && step.task->unaligned_inputs() >> i & 1;
            if (!any_address)
                tensor.address = tensor.constant->data();
            else if (!tensor.address)
                tensor.address = tensor.constant->unaligned_data();
        }
}

uint32_t PlanBuild::tensor_of(uint32_t edge) {
    if (tensors_[edge] != kNoTensor) return tensors_[edge];
    tensors_[edge] = static_cast<uint32_t>(plan_->tensors.size());
    auto& tensor = plan_->tensors.emplace_back();
    tensor.edge = edge;
    tensor.dtype = descs_[edge].dtype, tensor.dims = descs_[edge].dims;
    tensor.plain = descs_[edge].layout == Layout::Plain;
    tensor.bytes = bytes_of(edge);
    return tensors_[edge];
}

}  // namespace refactor::kernel
