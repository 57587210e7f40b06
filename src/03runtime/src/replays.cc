#include "replays.h"

#include "common/error.h"

#include <algorithm>

namespace refactor::runtime {

void Replays::record(mem_manager::Stream& stream, Entry& entry, std::function<void()> const& launch) {
    stream.begin_recording();
    std::exception_ptr thrown;
    try {
        launch();
    } catch (...) {
        thrown = std::current_exception();
    }
    try {
        entry.recording = stream.end_recording();
    } catch (...) {
        if (!thrown) thrown = std::current_exception();
    }
    if (!thrown) return;
    entry.recording = nullptr;
    try {
        std::rethrow_exception(thrown);
    } catch (DeviceError const& error) {
        entry.failure = error.what(), ++entry.failures;
    } catch (OutOfMemory const& error) {
        entry.failure = error.what(), ++entry.failures;
    }
}

void Replays::run(mem_manager::Stream& stream, std::shared_ptr<Plan const> const& plan,
                  std::span<void const* const> addresses, std::function<void()> const& launch) {
    auto same = [&](Entry const& entry) {
        return entry.plan == plan &&
               std::equal(entry.addresses.begin(), entry.addresses.end(), addresses.begin(), addresses.end());
    };
    auto found = std::find_if(entries_.begin(), entries_.end(), same);
    if (found == entries_.end()) {
        if (entries_.size() == kKept) {
            stream.synchronize();  // a recording that is destroyed must not be under way
            entries_.pop_back();
        }
        entries_.push_front({plan, {addresses.begin(), addresses.end()}, nullptr, {}, 0});
        return launch();
    }
    entries_.splice(entries_.begin(), entries_, found);
    auto& entry = entries_.front();
    if (!entry.recording && entry.failures < kMostFailures) record(stream, entry, launch);
    if (!entry.recording) return launch();
    entry.recording->launch(stream);
}

std::string Replays::state(Plan const& plan) const {
    std::string state = "not yet: the plan has not run twice with the same addresses";
    for (auto const& entry : entries_) {
        if (entry.plan.get() != &plan) continue;
        if (entry.recording) return "recorded";
        if (!entry.failures) continue;
        state = entry.failures < kMostFailures ? "not yet, it failed and is tried again: " : "cannot be recorded: ";
        state += entry.failure;
    }
    return state;
}

std::string why_not_recorded(Plan const& plan, Planner const& planner) {
    for (auto const& step : plan.steps)
        if (!step.task->can_replay())
            return planner.node_type(step.node) + " node \"" + planner.node_name(step.node) +
                   "\" does something else in every run";
    return {};
}

}  // namespace refactor::runtime
