#include "passes/channels_last_region.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/quantize.h"
#include "kernel/ops/reduce.h"

#include <algorithm>

namespace refactor::computation {

bool is_image(EdgePtr edge) { return edge && edge->value.shape.size() >= 3 && edge->value.shape.size() <= 5; }

bool has_one_element(EdgePtr edge) { return element_count(edge->value.shape) == DimExpr(1); }

Shape channels_last(Shape const& shape) {
    Shape result{shape[0]};
    result.insert(result.end(), shape.begin() + 2, shape.end());
    result.push_back(shape[1]);
    return result;
}

namespace {

bool has_one_position(Shape const& shape) {
    return std::all_of(shape.begin() + 2, shape.end(), [](DimExpr const& size) { return size == DimExpr(1); });
}

/// One value per channel, [C, 1…] or [1, C, 1…], for a tensor like `y`.
bool is_per_channel(EdgePtr edge, EdgePtr y) {
    auto const &shape = edge->value.shape, &full = y->value.shape;
    if (shape.size() > full.size() || shape.size() + 1 < full.size()) return false;
    for (size_t i = 0; i < shape.size(); ++i)
        if (!(shape[i] == (i + full.size() - shape.size() == 1 ? full[1] : DimExpr(1)))) return false;
    return true;
}

/// One value for each image and channel, [N, C, 1…].
bool is_per_image_and_channel(EdgePtr edge, EdgePtr y) {
    auto const &shape = edge->value.shape, &full = y->value.shape;
    return shape.size() == full.size() && shape[0] == full[0] && shape[1] == full[1] && has_one_position(shape);
}

/// Where an axis is with the channels last.
int64_t moved_axis(int64_t axis, size_t rank) {
    return axis == 0 ? 0 : axis == 1 ? static_cast<int64_t>(rank) - 1 : axis - 1;
}

/// What belongs to axes, or to the begin and the end of axes, in their new order.
template <class T>
std::vector<T> moved_values(std::vector<T> const& values, size_t rank) {
    auto moved = values;
    for (size_t i = 0; i < values.size(); ++i)
        moved[i / rank * rank + static_cast<size_t>(moved_axis(static_cast<int64_t>(i % rank), rank))] = values[i];
    return moved;
}

Edge moved_value(EdgePtr edge) {
    return {edge->value.name + "/last", edge->value.dtype, channels_last(edge->value.shape), {}, nullptr, false};
}

}  // namespace

EdgePtr ChannelsLastRegion::transpose(EdgePtr edge, bool to_last) {
    auto rank = static_cast<int64_t>(edge->value.shape.size());
    kernel::TransposeInfo info;
    info.perm = {0};
    for (int64_t i = 1; i < rank; ++i)
        info.perm.push_back(to_last ? i % (rank - 1) + 1 : (i + rank - 3) % (rank - 1) + 1);
    auto* node = graph_.insert({edge->value.name + "/transpose", make_operator(info)}, {edge});
    return node->output();
}

EdgePtr ChannelsLastRegion::reshape(EdgePtr edge, std::string const& suffix, Shape shape) {
    auto* node = graph_.insert({edge->value.name + "/reshape", std::make_shared<Reshape>()}, {edge});
    node->output()->value = {edge->value.name + suffix, edge->value.dtype, std::move(shape), {}, nullptr, false};
    return node->output();
}

EdgePtr ChannelsLastRegion::with_channels_last(EdgePtr edge) {
    auto [it, fresh] = last_.try_emplace(edge, nullptr);
    if (!fresh) return it->second;
    EdgePtr moved;
    if (has_one_position(edge->value.shape)) {
        moved = reshape(edge, "/last", channels_last(edge->value.shape));
    } else {
        moved = transpose(edge, true);
        moved->value = moved_value(edge);
    }
    return last_[edge] = moved;
}

bool ChannelsLastRegion::adopt(NodePtr node) {
    auto const* info = info_of<kernel::TransposeInfo>(*node->value.op);
    auto* y = node->outputs().empty() ? nullptr : node->output();
    if (!info || !is_image(y) || y->value.dtype != node->input(0)->value.dtype) return false;
    auto rank = static_cast<int64_t>(info->perm.size());
    for (int64_t i = 0; i < rank; ++i)
        if (info->perm[static_cast<size_t>(i)] != moved_axis(i, info->perm.size())) return false;
    return last_.try_emplace(y, node->input(0)).second;
}

void ChannelsLastRegion::produce(EdgePtr moved, EdgePtr y) {
    moved->value = moved_value(y);
    last_[y] = moved;
    if (has_one_position(y->value.shape)) {
        graph_.insert_producing({y->value.name + "/reshape", std::make_shared<Reshape>()}, {moved}, {y});
        return;
    }
    auto* back = transpose(moved, false);
    auto* reverse = back->producer();
    auto op = reverse->value;
    graph_.erase(reverse);
    graph_.insert_producing(std::move(op), {moved}, {y});
}

void ChannelsLastRegion::convert(NodePtr node, std::shared_ptr<Operator const> op, std::vector<bool> const& follows) {
    std::vector<EdgePtr> inputs;
    for (size_t i = 0; i < node->inputs().size(); ++i)
        inputs.push_back(follows[i] ? with_channels_last(node->input(i)) : node->input(i));
    auto* y = node->output();
    produce(graph_.insert({node->value.name, std::move(op)}, inputs)->output(), y);
    graph_.erase(node);
}

bool ChannelsLastRegion::follow(NodePtr node, bool quantising) {
    auto const& op = *node->value.op;
    bool elementwise = info_of<kernel::ElementwiseInfo>(op) != nullptr;
    bool quantises = info_of<kernel::QuantizeInfo>(op) || info_of<kernel::DequantizeInfo>(op);
    if (!elementwise && !(quantising && quantises)) return false;
    if (node->outputs().size() != 1 || !is_image(node->output())) return false;
    std::vector<bool> follows;
    bool inside = false;
    for (auto* input : node->inputs()) {
        bool across = elementwise && input && !has_one_element(input) && is_per_channel(input, node->output());
        follows.push_back(input && !has_one_element(input) && !across);
        if (!follows.back()) continue;
        bool image = last_.contains(input) && input->value.shape == node->output()->value.shape;
        if (!image && !(elementwise && is_per_image_and_channel(input, node->output()))) return false;
        inside |= image;
    }
    if (!inside) return false;
    for (size_t i = 0; i < follows.size(); ++i)
        if (!follows[i] && node->input(i) && !has_one_element(node->input(i)))
            graph_.set_input(node, i, reshape(node->input(i), "/last", {node->output()->value.shape[1]}));
    convert(node, node->value.op, follows);
    return true;
}

bool ChannelsLastRegion::convert_concat(NodePtr node) {
    auto const* concat = info_of<kernel::ConcatInfo>(*node->value.op);
    if (!concat || !is_image(node->output())) return false;
    for (auto* input : node->inputs())
        if (!last_.contains(input)) return false;
    kernel::ConcatInfo info{moved_axis(concat->axis, node->output()->value.shape.size())};
    convert(node, make_operator(info), std::vector<bool>(node->inputs().size(), true));
    return true;
}

bool ChannelsLastRegion::convert_split(NodePtr node) {
    auto const* split = info_of<kernel::SplitInfo>(*node->value.op);
    if (!split || !last_.contains(node->input(0))) return false;
    auto* x = node->input(0);
    auto op = make_operator(kernel::SplitInfo{moved_axis(split->axis, x->value.shape.size())});
    std::vector<EdgePtr> const parts(node->outputs().begin(), node->outputs().end());
    auto* made = graph_.insert({node->value.name, std::move(op)}, {with_channels_last(x)}, parts.size());
    for (size_t i = 0; i < parts.size(); ++i) produce(made->output(i), parts[i]);
    graph_.erase(node);
    return true;
}

bool ChannelsLastRegion::convert_reduction(NodePtr node) {
    auto *x = node->input(0), *y = node->output();
    if (!last_.contains(x) || node->outputs().size() != 1) return false;
    auto rank = x->value.shape.size();
    kernel::ReduceInfo info;
    if (auto const* global = info_of<kernel::GlobalPoolInfo>(*node->value.op)) {
        if (global->kind == kernel::PoolKind::Sum) return false;
        info.kind = global->kind == kernel::PoolKind::Max ? kernel::ReduceKind::Max : kernel::ReduceKind::Mean;
    } else if (auto const* reduce = info_of<kernel::ReduceInfo>(*node->value.op)) {
        info.kind = reduce->kind;
        bool spatial = reduce->axes.size() == rank - 2;
        for (size_t i = 0; spatial && i < reduce->axes.size(); ++i)
            spatial = reduce->axes[i] == static_cast<int64_t>(i + 2);
        if (!spatial) return false;
    } else {
        return false;
    }
    for (size_t i = 1; i + 1 < rank; ++i) info.axes.push_back(static_cast<int64_t>(i));
    auto op = make_operator(info);
    if (y->value.shape.size() == rank) {
        convert(node, std::move(op), {true});
        return true;
    }
    graph_.insert_producing({node->value.name, std::move(op)}, {with_channels_last(x)}, {y});
    graph_.erase(node);
    return true;
}

bool ChannelsLastRegion::convert_resize(NodePtr node) {
    auto const* resize = info_of<kernel::ResizeInfo>(*node->value.op);
    if (!resize || !last_.contains(node->input(0)) || !node->value.op->params().empty()) return false;
    auto info = *resize;
    auto rank = node->output()->value.shape.size();
    info.scales = moved_values(info.scales, rank), info.roi = moved_values(info.roi, rank);
    std::vector<bool> follows(node->inputs().size());
    follows[0] = true;
    convert(node, make_operator(std::move(info)), follows);
    return true;
}

}  // namespace refactor::computation
