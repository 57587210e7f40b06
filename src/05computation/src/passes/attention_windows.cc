#include "passes/attention_windows.h"

#include "kernel/ops/movement.h"

#include <algorithm>

namespace refactor::computation {

namespace {

/// What is repeated for each image to make `mask`, as masks of windows; null if it is made otherwise.
EdgePtr mask_of_image(Heads const& heads, EdgePtr mask) {
    auto* repeated = mask;
    while (repeated->producer() && repeated->producer()->value.op->is_alias())
        repeated = repeated->producer()->input(0);
    auto const* info = producer_info<kernel::ExpandInfo>(repeated);
    if (!info || info->tile) return nullptr;
    auto* image = repeated->producer()->input(0);
    auto const &from = image->value.shape, &to = repeated->value.shape, &all = mask->value.shape;
    bool leads = from.size() == to.size() && to.size() == all.size() + 1 && from[0] == DimExpr(1) &&
                 to[0] * to[1] == all[0] && std::equal(from.begin() + 1, from.end(), to.begin() + 1) &&
                 std::equal(all.begin() + 1, all.end(), to.begin() + 2);
    return leads ? heads.reshaped(image, {from.begin() + 1, from.end()}) : nullptr;
}

}  // namespace

bool are_windows(Shape const& scores, Shape const& matrices) {
    return scores.size() == 5 && matrices.size() == 4 && scores[0] * scores[1] == matrices[0] &&
           std::equal(scores.begin() + 2, scores.end(), matrices.begin() + 1);
}

EdgePtr mask_of_windows(Heads const& heads, EdgePtr mask, Shape const& scores, bool& repeats) {
    auto shape = mask->value.shape;
    if (shape.size() < 4) return mask;
    DimExpr const one(1);
    if (shape.size() == 4) shape.insert(shape.begin(), one);
    bool of_batch = shape[0] != one, of_window = shape[1] != one;
    if (of_batch && !of_window && scores[1] != one) return nullptr;
    repeats = of_window && !of_batch && scores[0] != one;
    auto first = shape[0] * shape[1];
    shape.erase(shape.begin());
    shape[0] = first;
    return heads.reshaped(mask, shape);
}

bool take_one_image(Heads const& heads, Expression& mask) {
    auto inputs = mask.inputs;
    bool any = false;
    for (auto*& input : inputs) {
        auto const& shape = input->value.shape;
        if (shape.size() < 4 || shape[0] == DimExpr(1)) continue;
        input = mask_of_image(heads, input);
        if (!input) return false;
        any = true;
    }
    if (any) mask.inputs = std::move(inputs);
    return any;
}

}  // namespace refactor::computation
