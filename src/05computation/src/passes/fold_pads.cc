#include "passes/fold_pads.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/expression.h"

#include <limits>

namespace refactor::computation {

namespace {

using kernel::ExprOp;

/// A Pad with a constant value, before what a window slides over.
struct Padded {
    NodePtr pad = nullptr;  ///< null: there is none
    NodePtr transpose = nullptr;
    Dims begins, ends;  ///< of the spatial axes
    double value = 0;
};

std::optional<double> value_of(NodePtr pad) {
    if (pad->inputs().size() < 2) return 0;
    auto constant = scalar_constant(pad->input(1));
    return constant ? std::optional<double>(constant->value) : std::nullopt;
}

Padded padded(EdgePtr image) {
    Padded found;
    auto* node = image->producer();
    Dims const* perm = nullptr;
    if (auto const* transpose = producer_info<kernel::TransposeInfo>(image))
        perm = &transpose->perm, found.transpose = node, node = node->input(0)->producer();
    auto const* info = node ? info_of<kernel::PadInfo>(*node->value.op) : nullptr;
    if (!info || info->mode != kernel::PadMode::Constant || image->value.keep || node->output()->value.keep) return {};
    auto value = value_of(node);
    if (!value) return {};
    found.value = *value;
    auto const &from = node->input(0)->value.shape, &to = node->output()->value.shape;
    for (size_t i = 0; i < from.size(); ++i) {
        auto axis = perm ? static_cast<size_t>((*perm)[i]) : i;
        auto const& first = node->value.op->params()[axis];
        auto begin = first.constant(), end = (to[axis] - from[axis] - first).constant();
        if (!begin || !end || *begin < 0 || *end < 0 || (i < 2 && (*begin || *end))) return {};
        if (i >= 2) found.begins.push_back(*begin), found.ends.push_back(*end);
    }
    found.pad = node;
    return found;
}

/// `window` around the unpadded image; nothing if it could lie beside it.
std::optional<kernel::Window> widened(kernel::Window window, Padded const& padded, Dims const& taps) {
    for (size_t i = 0; i < padded.begins.size(); ++i) {
        window.pads_begin[i] += padded.begins[i], window.pads_end[i] += padded.ends[i];
        auto reach = (taps[i] - 1) * window.dilations[i];
        if (window.pads_begin[i] > reach || window.pads_end[i] > reach) return std::nullopt;
    }
    return window;
}

/// No element of `edge` is below the value.
bool never_below(EdgePtr edge, double value) {
    if (value <= static_cast<double>(std::numeric_limits<float>::lowest())) return true;
    auto* node = edge->producer();
    if (!node || !info_of<kernel::ElementwiseInfo>(*node->value.op) || node->outputs().size() != 1) return false;
    auto expression = Expression::of(node);
    expression.normalize();
    auto const& last = expression.code[expression.outputs[0]];
    auto at_least = [&](int operand) {
        auto bound = expression.constant(last.operands[operand]);
        return bound && *bound >= value;
    };
    switch (last.op) {
        case ExprOp::Relu:
        case ExprOp::Sigmoid:
            return value <= 0;
        case ExprOp::Max:
            return at_least(0) || at_least(1);
        case ExprOp::Clip:
            return at_least(1) && at_least(2);
        default:
            return false;
    }
}

std::shared_ptr<Operator const> widened(NodePtr node, Padded const& padded) {
    if (!node->value.op->params().empty()) return nullptr;
    if (auto const* conv = info_of<kernel::ConvInfo>(*node->value.op)) {
        Dims taps;
        auto const& weights = node->input(1)->value.shape;
        for (size_t i = 2; i < weights.size(); ++i) taps.push_back(weights[i].constant().value_or(0));
        auto window = widened(conv->window, padded, taps);
        if (!window || padded.value != 0 || conv->channels_last) return nullptr;
        auto wide = *conv;
        wide.window = *window;
        return make_operator(wide);
    }
    auto const* pool = info_of<kernel::PoolInfo>(*node->value.op);
    auto window = pool && node->outputs().size() == 1 ? widened(pool->window, padded, pool->kernel) : std::nullopt;
    if (!window) return nullptr;
    auto wide = *pool;
    wide.window = *window;
    if (pool->kind == kernel::PoolKind::Max)
        return never_below(padded.pad->input(0), padded.value) ? make_operator(wide) : nullptr;
    if (padded.value != 0) return nullptr;
    if (pool->kind == kernel::PoolKind::Sum) return make_operator(wide);
    bool has_pads = false;
    for (auto pads : {&pool->window.pads_begin, &pool->window.pads_end})
        for (auto pad : *pads) has_pads |= pad != 0;
    if (has_pads && !pool->count_include_pad) return nullptr;
    wide.count_include_pad = true;
    return make_operator(wide);
}

bool fold(Graph& graph, NodePtr node) {
    auto const padded_image = padded(node->input(0));
    if (!padded_image.pad) return false;
    auto wide = widened(node, padded_image);
    if (!wide) return false;
    auto* image = padded_image.pad->input(0);
    auto* before = node->input(0)->producer();
    if (auto* transpose = padded_image.transpose) {
        auto value = transpose->output()->value;
        value.name += ".unpadded", value.keep = false;
        auto const& perm = info_of<kernel::TransposeInfo>(*transpose->value.op)->perm;
        for (size_t i = 0; i < perm.size(); ++i) value.shape[i] = image->value.shape[static_cast<size_t>(perm[i])];
        auto* moved = graph.insert({value.name, transpose->value.op}, {image});
        moved->output()->value = std::move(value);
        image = moved->output();
    }
    node->value.op = std::move(wide);
    graph.set_input(node, 0, image);
    graph.erase_unused(before);
    return true;
}

}  // namespace

int fold_pads(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (!node->alive()) continue;
        auto const& op = *node->value.op;
        if (info_of<kernel::ConvInfo>(op) || info_of<kernel::PoolInfo>(op)) changes += fold(model.graph, node);
    }
    return changes;
}

}  // namespace refactor::computation
