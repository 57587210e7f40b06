#include "program/plan_build.h"
#include "runtime/task.h"

#include <algorithm>

namespace refactor::kernel {

using runtime::kNoTensor;
using runtime::Storage;

/// Whether a step behind this one reads what begins at `root`, or this one reads it more than once.
bool PlanBuild::is_read_later(uint32_t step, uint32_t root) const {
    int reads = 0;
    for (auto i = step; i < plan_->steps.size(); ++i)
        for (auto edge : parts_.nodes[plan_->steps[i].node].inputs) reads += edge != kNoEdge && roots_[edge] == root;
    return reads > 1;
}

void PlanBuild::fill_overwrites() {
    auto& plan = *plan_;
    plan.overwrites.assign(parts_.outputs.size(), kNoTensor);
    auto is_output = [&](uint32_t root) {
        return std::any_of(parts_.outputs.begin(), parts_.outputs.end(),
                           [&](uint32_t edge) { return roots_[edge] == root; });
    };
    for (uint32_t i = 0; i < plan.steps.size(); ++i) {
        auto const& step = plan.steps[i];
        if (!step.task->is_repeatable_in_place()) continue;
        auto const& output = plan.tensors[plan.arguments[step.first_argument + step.inputs]];
        if (output.storage != Storage::Output) continue;
        for (uint32_t k = 0; k < step.inputs && k < 64; ++k) {
            auto number = plan.arguments[step.first_argument + k];
            if (!(step.task->in_place_inputs() >> k & 1) || number == kNoTensor) continue;
            auto const& input = plan.tensors[number];
            auto root = roots_[input.edge];
            if (input.storage == Storage::Input && input.bytes == output.bytes && may_overwrite(i, k) &&
                !is_output(root) && !is_read_later(i, root))
                plan.overwrites[output.index] = input.index;
        }
    }
}

}  // namespace refactor::kernel
