#include "common/error.h"
#include "common/thread_pool.h"
#include "mem_manager/blob.h"
#include "mem_manager/stopwatch.h"
#include "run_steps.h"

namespace refactor::runtime {

/// The shortest time of each step in ns, every step waited for.
std::vector<double> Executor::host_times(int repeats) {
    using Clock = std::chrono::steady_clock;
    std::vector<double> best;
    Clock::time_point start;
    for (int repeat = 0; repeat < repeats; ++repeat)
        run_steps([&](uint32_t) { start = Clock::now(); },
                  [&](uint32_t step) {
                      if (remote_) remote_->stream.synchronize();
                      auto ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
                      if (best.size() <= step)
                          best.push_back(ns);
                      else
                          best[step] = std::min(best[step], ns);
                  });
    return best;
}

/// The same as the device takes them, while the host goes on.
std::vector<double> Executor::device_times(int repeats) {
    std::vector<double> best;
    mem_manager::Stopwatch watch(*device_);
    for (int repeat = 0; repeat < repeats; ++repeat) {
        watch.reset();
        run_steps(
            [&](uint32_t step) {
                if (step == 0) watch.mark(remote_->stream);
            },
            [&](uint32_t) { watch.mark(remote_->stream); });
        for (uint32_t i = 0; i < plan_->steps.size(); ++i) {
            auto ns = watch.between(i);
            if (best.size() <= i)
                best.push_back(ns);
            else
                best[i] = std::min(best[i], ns);
        }
    }
    return best;
}

std::vector<StepProfile> Executor::profile(int repeats, bool sync) {
    auto best = remote_ && !sync ? device_times(repeats) : host_times(repeats);
    std::vector<StepProfile> rows;
    for (uint32_t i = 0; i < best.size(); ++i) {
        auto const& step = plan_->steps[i];
        StepProfile row{i,
                        planner_->node_name(step.node),
                        planner_->node_type(step.node),
                        plan_->kernel_ids[step.kernel],
                        {},
                        best[i],
                        step.task->operations(),
                        0};
        for (uint32_t k = 0; k < step.inputs + step.outputs; ++k) {
            auto number = plan_->arguments[step.first_argument + k];
            if (number == kNoTensor) continue;
            auto const& tensor = plan_->tensors[number];
            row.bytes += static_cast<double>(tensor.bytes);
            if (k == step.inputs) row.shape = describe(tensor.dtype, tensor.dims);
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

TracedTensor Executor::traced(uint32_t number, std::vector<std::byte>& scratch) const {
    auto const& tensor = plan_->tensors[number];
    // What is read by no step has been packed; a user sees it as the model has it.
    bool unread = tensor.storage == Storage::Constant && !tensor.is_read;
    void const* data = unread ? tensor.constant->data() : argument_address(number);
    auto bytes = storage_bytes(tensor.dtype, element_count(tensor.dims));
    if (remote_ && !unread) {
        ensure(tensor.plain, "blocked layouts exist on the CPU only");
        scratch.resize(bytes);
        remote_->stream.copy_to_host(scratch.data(), data, bytes);
        data = scratch.data();
    }
    if (!tensor.plain) {
        scratch.resize(bytes);
        planner_->to_plain(tensor, data, scratch.data());
        data = scratch.data();
    }
    return {tensor.edge, planner_->edge_name(tensor.edge), tensor.dtype, tensor.dims, data, bytes};
}

void Executor::trace(TraceVisitor const& visit) {
    std::vector<std::byte> scratch;
    auto visit_range = [&](uint32_t index, uint32_t first, uint32_t last, bool is_output) {
        auto const& step = plan_->steps[index];
        for (auto k = first; k < last; ++k) {
            auto number = plan_->arguments[step.first_argument + k];
            if (number != kNoTensor) visit(index, planner_->node_name(step.node), traced(number, scratch), is_output);
        }
    };
    run_steps([&](uint32_t i) { visit_range(i, 0, plan_->steps[i].inputs, false); },
              [&](uint32_t i) {
                  auto const& step = plan_->steps[i];
                  visit_range(i, step.inputs, step.inputs + step.outputs, true);
              });
}

}  // namespace refactor::runtime
