#include "common/error.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "remote.h"

#include <algorithm>

namespace refactor::runtime {

using mem_manager::Blob;

namespace {

/// What grows from run to run gets an eighth more than it needs.
size_t with_reserve(size_t bytes) { return bytes + bytes / 8; }

}  // namespace

void Executor::carry(std::vector<std::pair<size_t, size_t>> const& pairs) {
    std::vector<Carried> all;
    for (auto const& [output, input] : pairs) all.push_back({output, input, false, nullptr});
    carried_ = std::move(all);
}

Executor::Carried* Executor::carried(size_t output) {
    auto found = std::find_if(carried_.begin(), carried_.end(), [&](auto const& c) { return c.output == output; });
    return found == carried_.end() ? nullptr : &*found;
}

/// Memory of the host for an output that nobody else holds: what it had before, if that fits.
void Executor::make_room(size_t output) {
    auto bytes = plan_->tensors[plan_->outputs[output]].bytes;
    auto& blob = outputs_[output].blob;
    auto* state = carried(output);
    if (!state) {
        if (!blob || blob.use_count() > 1 || blob->bytes() != bytes)
            blob = Blob::make(mem_manager::cpu_device(), bytes);
        return;
    }
    auto const& input = inputs_[state->input].blob;
    if (state->is_own && plan_->overwrites[output] == state->input && input.use_count() == 1 + (blob == input)) {
        blob = input;
        return;
    }
    // The run reads what the last one wrote.
    if (blob == input) blob = std::move(state->spare);
    if (blob && blob.use_count() == 1 && blob->bytes() >= bytes && blob->bytes() <= with_reserve(bytes)) return;
    bool grows = blob && blob->bytes() < bytes;
    blob = nullptr;
    blob = Blob::make(mem_manager::cpu_device(), grows ? with_reserve(bytes) : bytes);
}

/// Hands outputs of the run that is over to the next one.
void Executor::advance() {
    for (auto& state : carried_) {
        auto& input = inputs_[state.input];
        auto fresh = device_output(state.output);
        if (input.blob != fresh.blob) state.spare = state.is_own ? std::move(input.blob) : nullptr;
        stale_ |= !(input.dims == fresh.dims);
        input = std::move(fresh), state.is_own = true;
    }
}

}  // namespace refactor::runtime
