#include "passes/layout_ability.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using Ability = LayoutAbility;

bool has_channels(EdgePtr edge) {
    return edge && edge->value.shape.size() >= 3 && edge->value.shape.size() <= 5 && edge->value.dtype == DataType::F32;
}

bool is_scalar(EdgePtr edge) {
    for (auto const& size : edge->value.shape)
        if (!(size == DimExpr(1))) return false;
    return true;
}

/// One value per channel, [C, 1…] or [1, C, 1…], for an output with `rank` axes and C channels.
bool is_per_channel(EdgePtr edge, size_t rank, DimExpr const& channels) {
    auto const& shape = edge->value.shape;
    if (shape.size() > rank || shape.size() + 1 < rank) return false;
    for (size_t i = 0; i < shape.size(); ++i)
        if (!(shape[i] == (i + rank - shape.size() == 1 ? channels : DimExpr(1)))) return false;
    return true;
}

/// One value for all channels, [1 or N, 1, spatial…] or fewer axes, for an output of `shape`.
bool is_of_one_channel(EdgePtr edge, Shape const& shape) {
    auto const& own = edge->value.shape;
    if (own.size() > shape.size()) return false;
    auto lead = shape.size() - own.size();
    for (size_t i = 0; i < own.size(); ++i)
        if (!(own[i] == DimExpr(1)) && (i + lead == 1 || !(own[i] == shape[i + lead]))) return false;
    return true;
}

Ability elementwise_ability(NodePtr node) {
    Ability ability;
    auto const& shape = node->output()->value.shape;
    for (auto* output : node->outputs())
        if (!has_channels(output)) return {};
    for (auto* input : node->inputs()) {
        if (is_scalar(input) || is_per_channel(input, shape.size(), shape[1])) {
            ability.follows.push_back(0);
        } else if (has_channels(input) && !input->is_source() && input->value.shape.size() == shape.size() &&
                   input->value.shape[1] == shape[1]) {
            ability.follows.push_back(1);
        } else if (is_of_one_channel(input, shape)) {
            ability.follows.push_back(0);
        } else {
            return {};
        }
    }
    ability.blocked = true;
    return ability;
}

Ability concat_ability(NodePtr node) {
    Ability ability;
    auto const* info = info_of<kernel::ConcatInfo>(*node->value.op);
    ability.blocked = info->axis == 1 && has_channels(node->output()), ability.needs_blocks = true;
    for (auto* input : node->inputs()) {
        ability.blocked &= has_channels(input) && !input->is_source();
        ability.follows.push_back(1);
    }
    return ability;
}

/// Cuts along the channels; where these are not whole blocks, they are copied lane by lane.
Ability split_ability(NodePtr node, int64_t block) {
    Ability ability;
    ability.blocked = info_of<kernel::SplitInfo>(*node->value.op)->axis == 1 && has_channels(node->input(0)) &&
                      !node->input(0)->is_source();
    ability.follows.push_back(1);
    for (auto* output : node->outputs()) {
        ability.blocked &= has_channels(output);
        if (!ability.blocked) return {};
        auto channels = output->value.shape[1].constant();
        ability.blocked &= channels.has_value();
        ability.parts_of_blocks |= channels && *channels % block;
    }
    return ability;
}

/// Cuts whole blocks of channels or all of them, and anything of other axes; or channels alone, lane by lane.
Ability slice_ability(NodePtr node, int64_t block) {
    auto const& op = *node->value.op;
    auto const* info = info_of<kernel::SliceInfo>(op);
    if (!has_channels(node->input(0)) || node->input(0)->is_source() || info->steps[1] != 1) return {};
    auto const &x = node->input(0)->value.shape, &y = node->output()->value.shape;
    Ability ability;
    ability.blocked = true;
    ability.follows.push_back(1);
    if (x[1] == y[1]) return ability;
    auto first = op.params()[1].constant(), count = y[1].constant(), all = x[1].constant();
    if (!first || !count || !all) return {};
    ability.parts_of_blocks = *first % block || (*count % block && *first + *count != *all);
    for (size_t axis = 0; ability.parts_of_blocks && axis < x.size(); ++axis)
        if (axis != 1 && (!(x[axis] == y[axis]) || info->steps[axis] != 1)) return {};
    return ability;
}

/// Over the channels alone; lanes behind the last are zeros, which extremes and products must not see.
Ability reduce_ability(NodePtr node, int64_t block) {
    using enum kernel::ReduceKind;
    auto const* info = info_of<kernel::ReduceInfo>(*node->value.op);
    auto* x = node->input(0);
    if (info->axes != Dims{1} || info->kind == LogSumExp || !node->value.op->params().empty() || !has_channels(x) ||
        x->is_source())
        return {};
    auto channels = x->value.shape[1].constant();
    bool whole = info->kind != Max && info->kind != Min && info->kind != Prod;
    if (!channels || *channels == 0 || (*channels % block && !whole)) return {};
    Ability ability;
    ability.blocked = ability.plain_output = true;
    ability.follows.push_back(1);
    return ability;
}

/// Groups of so few channels in all (filters of images and sounds) that lanes of a block would be empty: lanes are
/// columns of row-major tensors. Short rows repay that only where most lanes would be.
bool has_few_channels_in_groups(NodePtr node, kernel::ConvInfo const& conv, int64_t block) {
    constexpr int64_t kFew = 4, kLongRow = 256;
    auto const &x = node->input(0)->value.shape, &y = node->output()->value.shape;
    auto in = x[1].constant(), out = y[1].constant();
    if (conv.group <= 1 || conv.epilogue.residual || !in || !out || *out / conv.group > block / 2) return false;
    return std::max(*in, *out) < block && (*out <= kFew || y.back().constant().value_or(0) >= kLongRow);
}

}  // namespace

LayoutAbility layout_ability(NodePtr node, int64_t block) {
    auto const& op = *node->value.op;
    auto window = [&](bool convolution) {
        Ability ability;
        ability.blocked = has_channels(node->input(0)) && has_channels(node->output());
        ability.convolution = convolution, ability.needs_blocks = true;
        for (size_t i = 0; i < node->inputs().size(); ++i) ability.follows.push_back(i == 0);
        return ability;
    };
    if (auto const* conv = info_of<kernel::ConvInfo>(op)) {
        auto ability = window(true);
        if (conv->epilogue.residual) ability.follows.back() = 1;
        auto channels = node->input(0)->value.shape[1].constant();
        if (conv->group == 1 && channels && *channels < block) ability.follows[0] = 0;
        if (has_few_channels_in_groups(node, *conv, block)) ability.follows[0] = 0, ability.plain_output = true;
        return ability;
    }
    if (auto const* conv = info_of<kernel::ConvTransposeInfo>(op)) {
        auto ability = window(true);
        if (conv->epilogue.residual) ability.follows.back() = 1;
        return ability;
    }
    if (info_of<kernel::PoolInfo>(op)) return node->outputs().size() > 1 ? Ability{} : window(false);
    if (info_of<kernel::GlobalPoolInfo>(op) || info_of<kernel::GroupNormInfo>(op)) return window(false);
    if (info_of<kernel::PadInfo>(op)) {
        auto ability = window(false);
        for (size_t axis : {0u, 1u})
            ability.blocked = ability.blocked && op.params()[axis] == DimExpr(0) &&
                              node->input(0)->value.shape[axis] == node->output()->value.shape[axis];
        return ability;
    }
    if (info_of<kernel::ElementwiseInfo>(op)) return elementwise_ability(node);
    if (info_of<kernel::ReduceInfo>(op)) return reduce_ability(node, block);
    if (info_of<kernel::ConcatInfo>(op)) return concat_ability(node);
    if (info_of<kernel::SplitInfo>(op)) return split_ability(node, block);
    if (info_of<kernel::SliceInfo>(op)) return slice_ability(node, block);
    if (info_of<kernel::ResizeInfo>(op)) {
        auto ability = window(false);
        auto const &in = node->input(0)->value.shape, &out = node->output()->value.shape;
        ability.blocked &= in[0] == out[0] && in[1] == out[1];
        return ability;
    }
    return {};
}

bool is_pointwise(NodePtr node) {
    auto const* conv = info_of<kernel::ConvInfo>(*node->value.op);
    if (!conv || !node->value.op->params().empty()) return false;
    auto const &w = node->input(1)->value.shape, &x = node->input(0)->value.shape, &y = node->output()->value.shape;
    for (size_t axis = 2; axis < w.size(); ++axis)
        if (!(w[axis] == DimExpr(1)) || !(x[axis] == y[axis])) return false;
    return true;
}

}  // namespace refactor::computation
