#pragma once
#include "common/error.h"
#include "common/thread_pool.h"
#include "remote.h"

namespace refactor::runtime {

/// Does the steps of the plan (on a device: puts them into its stream), each between `before` and `after`.
template <class Before, class After>
void Executor::launch_steps(Before&& before, After&& after) {
    void* stream = remote_ ? remote_->stream.native() : nullptr;
    RunContext contexts[] = {{*pool_, nullptr, stream, nullptr, scratch_, scratch_step_},
                             {calling_thread(), nullptr, stream, nullptr, scratch_, scratch_step_}};
    auto* faults = remote_ ? remote_->faults(plan_->steps.size()) : nullptr;
    uint32_t i = 0;
    try {
        for (auto count = static_cast<uint32_t>(plan_->steps.size()); i < count; ++i) {
            auto const& step = plan_->steps[i];
            before(i);
            NamedRange range(remote_ ? remote_->ranges : nullptr, *planner_, step.node);
            auto& context = contexts[step.alone];
            context.workspace = workspaces_[i];
            context.fault = faults ? faults + i : nullptr;
            step.task->run(addresses_.data() + step.first_argument, context);
            after(i);
        }
    } catch (Cancelled&) {
        throw;
    } catch (Error& error) {
        auto node = plan_->steps[i].node;
        error.add_context(planner_->node_type(node) + " node \"" + planner_->node_name(node) + '"');
        throw;
    }
}

/// A whole run.
template <class Before, class After>
void Executor::run_steps(Before&& before, After&& after) {
    if (remote_ && remote_->pending) settle();
    prepare_run();
    FlushDenormals flush;
    Remote::Settle settled(remote_.get());
    launch_steps(before, after);
    if (remote_) settle();
    ran_ = true;
}

}  // namespace refactor::runtime
