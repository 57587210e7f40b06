#include "program/task_choice.h"

#include "common/log.h"
#include "mem_manager/device.h"
#include "runtime/task.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

/// Candidates whose estimates are further than this from the best are not measured: no estimate is that wrong.
constexpr double kFarBehind = 8;

/// What the candidate of the best estimate may take longer than the fastest and still be chosen: so much is noise.
constexpr double kNoise = 1.03;

/// ns by its estimate (which of so short a step is often twice what it takes) from which a step is worth another
/// thread. Below, waking the other, and fetching what it has written for the next step, take as long as it saves
/// (measured on Emerald Rapids).
constexpr double kWorthSharing = 8000;

/// Whether one thread is done with it sooner than others have come to help; not known of kernels without an estimate.
bool is_short(Kernel const& kernel, BindArgs args) {
    if (args.threads == 1) return false;
    args.threads = 1;
    auto time = kernel.estimate(args);
    return time && *time > 0 && *time < kWorthSharing;
}

}  // namespace

std::string TaskChoice::key_of(ProgramNode const& node, BindArgs const& args) const {
    auto key = node.type + '{' + node.attributes + '}';
    auto add = [&](TensorDesc const* desc, bool constant) {
        if (!desc) {
            key += " -";
            return;
        }
        key += ' ';
        key += name_of(desc->dtype);
        if (desc->layout != Layout::Plain) key += "/c" + std::to_string(block_of(desc->layout));
        key += '[';
        for (size_t i = 0; i < desc->dims.size(); ++i) key += (i ? "," : "") + std::to_string(desc->dims[i]);
        key += constant ? "]c" : "]";
    };
    for (size_t i = 0; i < args.inputs.size(); ++i)
        add(args.inputs[i], args.inputs[i] && parts_.edges[node.inputs[i]].constant);
    key += " ->";
    for (auto const* output : args.outputs) add(output, false);
    for (auto value : args.params) key += ' ' + std::to_string(value);
    if (parts_.device != "cpu") return key + " @" + mem_manager::find_device(parts_.device, 0).name();
    return key + " x" + std::to_string(args.threads);
}

std::string TaskChoice::measure(ProgramNode const& node, BindArgs const& args, Candidates const& candidates) {
    PackCache packs;  // what losers packed goes away with it
    std::vector<Kernel const*> kernels;
    std::vector<std::unique_ptr<runtime::Task>> tasks;
    std::vector<runtime::Task const*> runnable;
    for (auto const& candidate : candidates) {
        if (candidate.cost > kFarBehind * candidates[0].cost) break;
        auto task = candidate.kernel->bind({args.inputs, args.outputs, args.params, packs, args.threads});
        if (!task) continue;
        kernels.push_back(candidate.kernel);
        runnable.push_back(tasks.emplace_back(std::move(task).value()).get());
    }
    if (kernels.size() < 2) return candidates[0].kernel->id();
    std::vector<mem_manager::Blob const*> constants;
    for (auto edge : node.inputs) constants.push_back(edge == kNoEdge ? nullptr : parts_.edges[edge].constant.get());
    if (!timer_) timer_ = std::make_unique<KernelTimer>(args.threads, mem_manager::find_device(parts_.device, 0));
    auto times = timer_->fastest(runnable, args, constants);
    auto fastest = std::min_element(times.begin(), times.end());
    if (kernels[0] == candidates[0].kernel && times[0] <= kNoise * *fastest) fastest = times.begin();
    return kernels[static_cast<size_t>(fastest - times.begin())]->id();
}

void TaskChoice::put_tuned_first(ProgramNode const& node, BindArgs const& args, Candidates& candidates) {
    auto key = key_of(node, args);
    auto find = [&](std::string const& id) {
        return std::find_if(candidates.begin(), candidates.end(), [&](auto const& c) { return c.kernel->id() == id; });
    };
    auto known = parts_.tuning->find(key);
    if ((!known || find(*known) == candidates.end()) && parts_.measure) {
        known = measure(node, args, candidates);
        parts_.tuning->set(std::move(key), *known);
    }
    if (!known) return;
    if (auto it = find(*known); it != candidates.end()) std::rotate(candidates.begin(), it, it + 1);
}

Result<Chosen, std::string> TaskChoice::choose(ProgramNode const& node, BindArgs const& args) {
    Candidates candidates;
    std::string reasons;
    auto declined = [&](Kernel const& kernel, Rejection const& why) {
        reasons += "\n  " + kernel.id() + ": " + why.reason;
    };
    for (auto const& kernel : node.kernels) {
        double cost = 0;
        if (node.kernels.size() > 1) {
            auto answer = kernel->estimate(args);
            if (!answer) {
                declined(*kernel, answer.error());
                continue;
            }
            cost = *answer;
        }
        auto position = candidates.size();
        while (position && candidates[position - 1].cost > cost) --position;
        candidates.insert(candidates.begin() + position, {kernel.get(), cost});
    }
    if (parts_.tuning && candidates.size() > 1) put_tuned_first(node, args, candidates);
    for (auto const& candidate : candidates) {
        auto own = args;
        bool alone = parts_.device == "cpu" && is_short(*candidate.kernel, args);
        if (alone) own.threads = 1;
        auto task = candidate.kernel->bind(own);
        if (task) {
            if (candidate.kernel != candidates[0].kernel && log_enabled(LogLevel::Info))
                log(LogLevel::Info, '"' + node.name + "\" runs on " + candidate.kernel->id() + "; declined:" + reasons);
            return Chosen{candidate.kernel, std::move(task).value(), alone};
        }
        declined(*candidate.kernel, task.error());
    }
    return Err{std::move(reasons)};
}

}  // namespace refactor::kernel
