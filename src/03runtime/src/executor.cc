#include "runtime/executor.h"

#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/allocator.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "run_steps.h"

namespace refactor::runtime {

using mem_manager::Blob;

namespace {

/// The first place in a block where a task's workspace may begin.
std::byte* workspace_in(std::byte* block, bool on_device) {
    auto step = on_device ? kDeviceWorkspaceAlignment : 1;
    return block + (step - reinterpret_cast<uintptr_t>(block) % step) % step;
}

}  // namespace

/// Where the blocks of the current plan are: one arena at the planned offsets, or wherever a run-time allocator put
/// them.
struct Executor::Memory {
    std::shared_ptr<Blob> arena;
    std::shared_ptr<Blob> scratch;  ///< of all threads
    size_t scratch_step = 0;
    std::unique_ptr<mem_manager::Allocator> allocator;
    std::vector<std::byte*> blocks;

    /// Pages of their own for every thread.
    static size_t scratch_step_of(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
    void place_scratch(size_t bytes, int threads) {
        auto step = scratch_step_of(bytes);
        if (step <= scratch_step) return;
        scratch = nullptr, scratch_step = 0;
        scratch = Blob::make(mem_manager::cpu_device(), step * static_cast<size_t>(threads));
        scratch_step = step;
    }

    /// Replays the life of every block on `allocator`: blocks that are never live together may share addresses.
    void replay(Plan const& plan) {
        blocks.assign(plan.blocks.size(), nullptr);
        std::vector<std::vector<uint32_t>> births(plan.steps.size() + 1), deaths(plan.steps.size() + 1);
        for (uint32_t i = 0; i < plan.blocks.size(); ++i) {
            births[plan.blocks[i].first_step].push_back(i);
            deaths[plan.blocks[i].last_step].push_back(i);
        }
        for (size_t step = 0; step < births.size(); ++step) {
            for (auto i : births[step]) blocks[i] = static_cast<std::byte*>(allocator->allocate(plan.blocks[i].bytes));
            for (auto i : deaths[step]) allocator->free(blocks[i]);
        }
    }
};

Executor::Executor(std::shared_ptr<Planner> planner, std::string allocator, int threads, mem_manager::Device* device,
                   std::shared_ptr<ThreadPool> pool)
    : planner_(std::move(planner)), pool_(std::move(pool)), device_(device) {
    if (!device_) device_ = &mem_manager::find_device(planner_->device_kind(), 0);
    if (!pool_) pool_ = std::make_shared<ThreadPool>(threads > 0 ? threads : default_thread_count());
    inputs_.resize(planner_->inputs().size()), outputs_.resize(planner_->outputs().size());
    dispatch(*device_, std::move(allocator));
}

Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;

int Executor::threads() const { return pool_->threads(); }

std::unique_ptr<Executor::Memory> Executor::make_memory(std::string const& allocator, mem_manager::Device& device) {
    auto memory = std::make_unique<Memory>();
    if (allocator != "default") memory->allocator = mem_manager::make_allocator(allocator, device);
    return memory;
}

void Executor::dispatch(mem_manager::Device& device, std::string allocator) {
    if (device.kind() != planner_->device_kind())
        throw Unsupported("dispatch to " + device.name() + ": the model was compiled for devices of kind \"" +
                          std::string(planner_->device_kind()) + '"');
    bool moves = device_ != &device;
    if (remote_ && remote_->pending) settle();
    auto memory = make_memory(allocator, device);
    auto remote = device.kind() == "cpu" || (remote_ && !moves)
                      ? nullptr
                      : std::make_unique<Remote>(device, inputs_.size(), outputs_.size());
    if (moves && remote_ && ran_)
        for (size_t i = 0; i < outputs_.size(); ++i) remote_->fetch(i, outputs_[i]);
    if (moves && remote_) remote_->finish_fetching();
    memory_ = std::move(memory), allocator_name_ = std::move(allocator);
    if (remote) remote_ = std::move(remote);
    device_ = &device;
    if (plan_) place();
}

void Executor::check_input(size_t index, Value const& value) const {
    if (index >= inputs_.size())
        throw InvalidInput("input number " + std::to_string(index) + " does not exist: the model has " +
                           std::to_string(inputs_.size()));
    auto const& port = planner_->inputs()[index];
    bool fits = value.kind == ValueKind::Tensor && value.dtype == port.dtype && value.dims.size() == port.dims.size();
    for (size_t i = 0; fits && i < port.dims.size(); ++i) fits = port.dims[i] < 0 || port.dims[i] == value.dims[i];
    if (!fits)
        throw InvalidInput("input \"" + port.name + "\": expected " + std::string(name_of(port.dtype)) + port.shape +
                           ", got " + describe(value));
    // No kernel reads text: a program may ask for its sizes only.
    if (value.dtype == DataType::String) return;
    auto needed = storage_bytes(value.dtype, element_count(value.dims));
    if (!value.blob || value.blob->bytes() < needed)
        throw InvalidInput("input \"" + port.name + "\": " + describe(value.dtype, value.dims) + " needs " +
                           std::to_string(needed) + " bytes, got " +
                           std::to_string(value.blob ? value.blob->bytes() : 0));
}

void Executor::set_input(size_t index, Value value) {
    check_input(index, value);
    if (!remote_ && value.blob && &value.blob->device() != &mem_manager::cpu_device()) value = on_host(value);
    auto& current = inputs_[index];
    stale_ |= current.dtype == DataType::Undefined || !(current.dims == value.dims);
    current = std::move(value);
    for (auto& state : carried_) state.is_own &= state.input != index;
}

void Executor::release_inputs() {
    for (auto& input : inputs_) input.blob = nullptr;
}

void Executor::check_output(size_t index) const {
    if (index >= outputs_.size())
        throw InvalidInput("output number " + std::to_string(index) + " does not exist: the model has " +
                           std::to_string(outputs_.size()));
    if (!ran_)
        throw InvalidInput("output \"" + planner_->outputs()[index].name + "\" has no value: the executor has not run");
}

Value const& Executor::output(size_t index) const {
    check_output(index);
    if (remote_ && remote_->pending) settle();
    if (remote_) remote_->fetch(index, outputs_[index]), remote_->finish_fetching();
    return outputs_[index];
}

void Executor::activate() {
    std::vector<Dims> dims;
    std::string unset;
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].dtype == DataType::Undefined)
            unset += (unset.empty() ? "\"" : ", \"") + planner_->inputs()[i].name + '"';
        dims.push_back(inputs_[i].dims);
    }
    if (!unset.empty()) throw InvalidInput("no value was set for input " + unset);
    auto plan = planner_->plan(dims);
    std::swap(plan_, plan);
    try {
        place();
    } catch (...) {
        plan_ = nullptr, stale_ = true;
        throw;
    }
    stale_ = false;
}

void Executor::place() {
    auto const& plan = *plan_;
    auto& memory = *memory_;
    if (memory.allocator) {
        memory.allocator->trim();
        memory.replay(plan);
    } else {
        if (!memory.arena || memory.arena->bytes() < plan.arena_bytes)
            memory.arena = nullptr, memory.arena = Blob::make(*device_, plan.arena_bytes);
        auto* base = static_cast<std::byte*>(memory.arena->data());
        memory.blocks.resize(plan.blocks.size());
        for (size_t i = 0; i < plan.blocks.size(); ++i) memory.blocks[i] = base + plan.blocks[i].offset;
    }
    memory.place_scratch(plan.scratch_bytes, threads());
    scratch_ = memory.scratch ? static_cast<std::byte*>(memory.scratch->data()) : nullptr;
    scratch_step_ = memory.scratch_step;
    input_patches_.clear(), output_patches_.clear();
    if (remote_)
        remote_->reads.assign(inputs_.size(), false), remote_->not_recorded = why_not_recorded(plan, *planner_);
    addresses_.assign(plan.arguments.size(), nullptr);
    for (uint32_t i = 0; i < plan.arguments.size(); ++i) {
        if (plan.arguments[i] == kNoTensor) continue;
        auto const& tensor = plan.tensors[plan.arguments[i]];
        if (tensor.storage == Storage::Input) {
            input_patches_.push_back({i, tensor.index});
            if (remote_) remote_->reads[tensor.index] = true;
        } else if (tensor.storage == Storage::Output)
            output_patches_.push_back({i, tensor.index});
        else
            addresses_[i] = argument_address(plan.arguments[i]);
    }
    workspaces_.assign(plan.steps.size(), nullptr);
    for (size_t i = 0; i < plan.steps.size(); ++i)
        if (plan.workspace_blocks[i] != kNoTensor)
            workspaces_[i] = workspace_in(memory.blocks[plan.workspace_blocks[i]], remote_ != nullptr);
}

void* Executor::argument_address(uint32_t number) const {
    auto const& tensor = plan_->tensors[number];
    switch (tensor.storage) {
        case Storage::Arena:
            return memory_->blocks[tensor.index] + tensor.offset;
        case Storage::Constant:
            return const_cast<void*>(remote_ ? planner_->constant_on(*device_, tensor) : tensor.address);
        case Storage::Input:
            if (remote_) return remote_->input(tensor.index);
            return inputs_[tensor.index].blob ? inputs_[tensor.index].blob->data() : nullptr;
        case Storage::Output:
            return remote_ ? remote_->output(tensor.index) : outputs_[tensor.index].blob->data();
    }
    throw InternalError("unknown storage");
}

void Executor::prepare_run() {
    if (stale_) activate();
    if (remote_) return prepare_remote_run(false);
    auto const& plan = *plan_;
    for (size_t i = 0; i < outputs_.size(); ++i) {
        auto const& tensor = plan.tensors[plan.outputs[i]];
        auto& value = outputs_[i];
        make_room(i);
        value.dtype = tensor.dtype;
        if (!(value.dims == tensor.dims)) value.dims = tensor.dims;
    }
    for (auto patch : input_patches_) addresses_[patch.argument] = inputs_[patch.port].blob->data();
    for (auto patch : output_patches_) addresses_[patch.argument] = outputs_[patch.port].blob->data();
}

/// Puts all steps into the stream of a device, or does them.
void Executor::launch_all(RunOptions const& options) {
    auto nothing = [](uint32_t) {};
    if (!options.token && !options.deadline) return launch_steps(nothing, nothing);
    launch_steps(
        [&](uint32_t step) {
            auto stop = [&](char const* why) {
                throw Cancelled(std::string(why) + " before step " + std::to_string(step) + " of " +
                                std::to_string(plan_->steps.size()));
            };
            if (options.token && options.token->cancelled()) stop("the run was cancelled");
            if (options.deadline && std::chrono::steady_clock::now() >= *options.deadline) stop("the run timed out");
        },
        nothing);
}

void Executor::run(RunOptions const& options) {
    if (remote_) return run_remote(options);
    prepare_run();
    FlushDenormals flush;
    launch_all(options);
    ran_ = true;
    advance();
}

std::unique_ptr<Executor> Executor::clone() const {
    auto copy = std::make_unique<Executor>(planner_, allocator_name_, threads(), device_);
    copy->inputs_ = inputs_, copy->may_record_ = may_record_;
    for (auto const& state : carried_) copy->carried_.push_back({state.output, state.input, false, nullptr});
    return copy;
}

Plan const& Executor::plan() {
    if (stale_) activate();
    return *plan_;
}

size_t Executor::memory_bytes() const {
    auto scratch = memory_->scratch ? memory_->scratch->bytes() : 0;
    if (memory_->allocator) return memory_->allocator->stats().reserved_bytes + scratch;
    return (memory_->arena ? memory_->arena->bytes() : 0) + scratch;
}

void Executor::trim() {
    if (remote_ && remote_->pending) settle();
    if (!plan_) return;
    auto& memory = *memory_;
    bool spare = memory.arena && memory.arena->bytes() > plan_->arena_bytes;
    bool spare_scratch = memory.scratch_step > Memory::scratch_step_of(plan_->scratch_bytes);
    if (spare) memory.arena = nullptr;
    if (spare_scratch) memory.scratch = nullptr, memory.scratch_step = 0;
    if (spare || spare_scratch) place();
}

}  // namespace refactor::runtime
