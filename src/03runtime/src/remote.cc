#include "remote.h"

#include "common/error.h"
#include "common/log.h"
#include "mem_manager/device.h"
#include "mem_manager/extension.h"
#include "mem_manager/pinned.h"

#include <algorithm>
#include <cstring>
#include <exception>

namespace refactor::runtime {

using mem_manager::Blob;

namespace {

RefactorDeviceRanges const* active_ranges(mem_manager::Device const& device) {
    auto const* ranges = mem_manager::extension_of<RefactorDeviceRanges>(device, RG_RANGES_EXTENSION);
    return ranges && ranges->enabled() ? ranges : nullptr;
}

std::string describe_fault(uint64_t word) {
    auto detail = std::to_string(static_cast<int32_t>(static_cast<uint32_t>(word)));
    switch (static_cast<Fault>(word >> 32)) {
        case Fault::Index:
            return "index " + detail + " is outside of the axis";
        case Fault::DivisionByZero:
            return "integer division of " + detail + " by zero";
        case Fault::Size:
            return "the size " + detail + " makes no sense here";
        case Fault::None:
            break;
    }
    return "the data makes no sense (" + std::to_string(word >> 32) + ", " + detail + ')';
}

}  // namespace

Executor::Remote::Remote(mem_manager::Device& device, size_t inputs, size_t outputs)
    : stream(device),
      ranges(active_ranges(device)),
      reads(inputs),
      inputs_(inputs),
      outputs_(outputs),
      sources_(inputs),
      fetched_(outputs, true),
      exported_(outputs) {}

Executor::Remote::~Remote() {
    // Whoever was given an output may have let go of it before his own work with it was done.
    wait_quietly(std::find(exported_.begin(), exported_.end(), true) != exported_.end());
}

void Executor::Remote::wait_quietly(bool for_all) {
    try {
        for_all ? stream.synchronize_device() : stream.synchronize();
    } catch (Error const& error) {
        log(LogLevel::Debug, std::string("after a failed run: ") + error.what());
    }
}

std::shared_ptr<Blob> const& Executor::Remote::output_blob(size_t index, bool exported) {
    if (exported) exported_[index] = true;
    return outputs_[index];
}

/// What a run under way may still read is not given up before its end.
void Executor::Remote::replace(std::shared_ptr<Blob>& held, std::shared_ptr<Blob> const& value) {
    if (held == value) return;
    if (held && pending) stream.synchronize();
    held = value;
}

void Executor::Remote::upload(size_t index, Value const& value) {
    auto& copy = inputs_[index];
    auto& device = value.blob->device();
    // What kernels read begins at a multiple of 64 bytes; a view into a larger tensor may not.
    bool aligned = reinterpret_cast<uintptr_t>(value.blob->data()) % 64 == 0;
    if (&device == &stream.device() && aligned) return replace(copy, value.blob);
    auto bytes = storage_bytes(value.dtype, element_count(value.dims));
    // A block that another owner shares is an input of the caller's: not ours to write.
    if (!copy || copy.use_count() > 1 || copy->bytes() < bytes) {
        replace(copy, nullptr);
        copy = Blob::make(stream.device(), bytes);
    }
    if (device.kind() == stream.device().kind()) {
        replace(sources_[index], value.blob);
        stream.copy_from_peer(copy->data(), device, value.blob->data(), bytes);
    } else if (value.blob->is_pinned_for(stream.device())) {
        replace(sources_[index], value.blob);
        stream.copy_from_pinned(copy->data(), value.blob->data(), bytes);
    } else {
        stream.copy_from_host(copy->data(), value.blob->data(), bytes);
    }
}

void Executor::Remote::reserve(size_t index, size_t bytes, bool ordered) {
    auto& blob = outputs_[index];
    bool fits = blob && blob.use_count() == 1 && blob->bytes() == bytes;
    // Whoever had the memory may have let go of it before his own work with it was done.
    if (blob && blob.use_count() == 1 && exported_[index] && !(ordered && fits)) stream.synchronize_device();
    exported_[index] = false;
    if (!fits) {
        blob = nullptr;
        blob = Blob::make(stream.device(), bytes);
    }
    fetched_[index] = false;
}

bool Executor::Remote::write_over(size_t output, size_t input, bool ordered) {
    auto const& blob = inputs_[input];
    auto& held = outputs_[output];
    if (!blob || blob.use_count() != 2 + (held == blob)) return false;
    if (exported_[output] && !ordered) stream.synchronize_device();
    exported_[output] = fetched_[output] = false;
    replace(held, blob);
    return true;
}

void Executor::Remote::fetch(size_t index, Value& value) {
    if (fetched_[index]) return;
    auto const& source = *outputs_[index];
    if (!value.blob || value.blob.use_count() > 1 || value.blob->bytes() != source.bytes())
        value.blob = mem_manager::make_pinned(stream.device(), source.bytes());
    stream.copy_to_pinned(value.blob->data(), source.data(), source.bytes());
    fetched_[index] = fetching_ = true;
}

void Executor::Remote::finish_fetching() {
    if (fetching_) stream.synchronize();
    fetching_ = false;
}

uint64_t* Executor::Remote::faults(size_t steps) {
    auto bytes = std::max<size_t>(steps, 1) * sizeof(uint64_t);
    if (!faults_ || faults_->bytes() < bytes) {
        faults_ = nullptr;
        faults_ = mem_manager::make_pinned(stream.device(), bytes);
        std::memset(faults_->data(), 0, bytes);
    }
    return faults_->is_pinned_for(stream.device()) ? static_cast<uint64_t*>(faults_->data()) : nullptr;
}

std::optional<std::pair<uint32_t, uint64_t>> Executor::Remote::take_fault() {
    if (!faults_) return std::nullopt;
    auto* words = static_cast<uint64_t*>(faults_->data());
    auto* end = words + faults_->bytes() / sizeof(uint64_t);
    auto* found = std::find_if(words, end, [](uint64_t word) { return word != 0; });
    if (found == end) return std::nullopt;
    std::pair result(static_cast<uint32_t>(found - words), *found);
    std::fill(found, end, 0);
    return result;
}

Executor::Remote::Settle::~Settle() {
    if (!remote_ || std::uncaught_exceptions() == 0) return;
    remote_->wait_quietly();
    remote_->take_fault();
    remote_->pending = false;
}

NamedRange::NamedRange(RefactorDeviceRanges const* ranges, Planner const& planner, uint32_t node) : ranges_(ranges) {
    if (ranges_)
        ranges_->push(
            (planner.node_type(node) + '.' + std::to_string(node) + '(' + planner.node_name(node) + ')').c_str());
}

void const* Planner::constant_on(mem_manager::Device& device, Tensor const&) {
    throw InternalError("the planner has no constants for " + device.name());
}

void Executor::prepare_remote_run(bool ordered) {
    auto const& plan = *plan_;
    ran_ = false;
    for (size_t i = 0; i < inputs_.size(); ++i)
        if (remote_->reads[i]) remote_->upload(i, inputs_[i]);
    for (size_t i = 0; i < outputs_.size(); ++i) {
        auto const& tensor = plan.tensors[plan.outputs[i]];
        auto const* state = carried(i);
        bool may_overwrite = state && state->is_own && plan.overwrites[i] == state->input;
        if (!may_overwrite || !remote_->write_over(i, state->input, ordered))
            remote_->reserve(i, tensor.bytes, ordered);
        outputs_[i].dtype = tensor.dtype, outputs_[i].dims = tensor.dims;
    }
    for (auto patch : input_patches_) addresses_[patch.argument] = remote_->input(patch.port);
    for (auto patch : output_patches_) addresses_[patch.argument] = remote_->output(patch.port);
}

void Executor::settle() const {
    if (!remote_) return;
    remote_->stream.synchronize();
    remote_->pending = false;
    auto fault = remote_->take_fault();
    if (!fault) return;
    auto node = plan_->steps[fault->first].node;
    InvalidInput error(describe_fault(fault->second));
    error.add_context(planner_->node_type(node) + " node \"" + planner_->node_name(node) + '"');
    throw error;
}

void Executor::run_remote(RunOptions const& options) {
    auto& remote = *remote_;
    // Runs in the order of the caller's stream follow each other unseen; a new plan may move memory.
    if (remote.pending && (stale_ || !options.stream)) settle();
    if (stale_) activate();
    Remote::Settle settled(&remote);
    if (options.stream) remote.stream.wait_for(*options.stream);
    prepare_remote_run(options.stream.has_value());
    auto launch = [&] { launch_all(options); };
    if (may_record_ && remote.stream.can_record() && !remote.ranges && remote.not_recorded.empty()) {
        auto& all = remote.addresses;
        all.assign(addresses_.begin(), addresses_.end());
        all.insert(all.end(), workspaces_.begin(), workspaces_.end());
        all.push_back(remote.faults(plan_->steps.size()));
        remote.replays.run(remote.stream, plan_, all, launch);
    } else {
        launch();
    }
    if (options.stream) {
        remote.stream.release_to(*options.stream);
        remote.pending = true;
    } else {
        settle();
    }
    ran_ = true;
    advance();
}

Value Executor::device_output(size_t index, bool exported) const {
    if (!remote_) return output(index);
    check_output(index);
    auto value = outputs_[index];
    value.blob = remote_->output_blob(index, exported);
    return value;
}

void Executor::allow_recording(bool allowed) {
    may_record_ = allowed;
    if (remote_ && !allowed) remote_->stream.synchronize(), remote_->replays.clear();
}

std::string Executor::recording_state() const {
    if (!remote_) return "runs on the host";
    if (!may_record_) return "not allowed";
    if (!remote_->stream.can_record()) return "the plugin of " + device_->name() + " cannot record";
    if (!plan_) return "not yet: there is no plan";
    if (!remote_->not_recorded.empty()) return "cannot be recorded: " + remote_->not_recorded;
    if (remote_->ranges) return "not while a profiler names the steps";
    return remote_->replays.state(*plan_);
}

void Executor::fetch_outputs() const {
    if (!remote_ || !ran_) return;
    if (remote_->pending) settle();
    auto is_carried = [&](size_t output) {
        return std::any_of(carried_.begin(), carried_.end(), [&](auto const& state) { return state.output == output; });
    };
    for (size_t i = 0; i < outputs_.size(); ++i)
        if (!is_carried(i)) remote_->fetch(i, outputs_[i]);
    remote_->finish_fetching();
}

mem_manager::Stream* Executor::stream() const { return remote_ ? &remote_->stream : nullptr; }

}  // namespace refactor::runtime
