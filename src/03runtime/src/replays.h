#pragma once
#include "mem_manager/stream.h"
#include "runtime/plan.h"

#include <functional>
#include <list>
#include <span>

namespace refactor::runtime {

/// The work of a device for one plan and one set of addresses, recorded when both come the second time and done by one
/// call from then on. A new shape, or an input at another address, is another recording; the last few are kept.
class Replays {
    struct Entry {
        std::shared_ptr<Plan const> plan;
        std::vector<void const*> addresses;
        std::unique_ptr<mem_manager::Recording> recording;  ///< null: seen once
        std::string failure;                                ///< why there is none, of the last attempt
        int failures;
    };
    // Users that alternate between a few buffers or shapes find each again; a recording of 1000 steps takes some MB.
    static constexpr size_t kKept = 8;
    // What other libraries do in other threads may spoil a recording: not the fault of the plan.
    static constexpr int kMostFailures = 3;
    std::list<Entry> entries_;  ///< most recent first

    void record(mem_manager::Stream& stream, Entry& entry, std::function<void()> const& launch);

public:
    /// Does what `launch` puts into `stream`. `addresses`: everything that it passes to kernels.
    void run(mem_manager::Stream& stream, std::shared_ptr<Plan const> const& plan,
             std::span<void const* const> addresses, std::function<void()> const& launch);
    /// "recorded", or why the plan is not.
    std::string state(Plan const& plan) const;
    void clear() { entries_.clear(); }
};

/// Why the work of a plan is never recorded, or nothing.
std::string why_not_recorded(Plan const& plan, Planner const& planner);

}  // namespace refactor::runtime
