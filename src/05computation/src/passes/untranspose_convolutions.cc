#include "passes/untranspose_convolutions.h"

#include "kernel/ops/conv.h"
#include "made_constants.h"
#include "passes/constants.h"

#include <algorithm>
#include <cstring>

namespace refactor::computation {

namespace {

/// [C, M / group, kernel…].
struct Weights {
    int64_t group, inputs, outputs, taps = 1;  ///< channels of a group
};

std::optional<Weights> weights_of(Shape const& shape, int64_t group) {
    Weights w{group, 0, 0};
    for (auto const& size : shape)
        if (!size.constant()) return std::nullopt;
    w.inputs = *shape[0].constant() / group, w.outputs = *shape[1].constant();
    for (size_t i = 2; i < shape.size(); ++i) w.taps *= *shape[i].constant();
    return w;
}

/// [M, C / group, kernel…], the taps turned round.
EdgePtr turned(Graph& graph, EdgePtr edge, Weights const& w) {
    auto const& value = edge->value;
    auto bytes = storage_bytes(value.dtype, 1);
    auto turn = [=](std::span<void const* const> sources, void* target) {
        auto const* from = static_cast<std::byte const*>(sources[0]);
        auto* to = static_cast<std::byte*>(target);
        for (int64_t g = 0; g < w.group; ++g)
            for (int64_t m = 0; m < w.outputs; ++m)
                for (int64_t c = 0; c < w.inputs; ++c) {
                    auto first = ((g * w.inputs + c) * w.outputs + m) * w.taps;
                    for (auto tap = w.taps; tap-- > 0; to += bytes)
                        std::memcpy(to, from + static_cast<size_t>(first + tap) * bytes, bytes);
                }
    };
    auto all = static_cast<size_t>(w.group * w.outputs * w.inputs * w.taps) * bytes;
    Shape shape{DimExpr(w.group * w.outputs), DimExpr(w.inputs)};
    shape.insert(shape.end(), value.shape.begin() + 2, value.shape.end());
    return add_constant(graph, value.name + ".turned", value.dtype, std::move(shape),
                        make_constant(all, {value.constant}, turn));
}

/// The window of the convolution, if it has one.
std::optional<kernel::Window> window_of(NodePtr node, kernel::Window const& of) {
    auto const &x = node->input(0)->value.shape, &w = node->input(1)->value.shape, &y = node->output()->value.shape;
    kernel::Window window{of.strides, of.dilations, {}, {}};
    for (size_t i = 0; i < of.strides.size(); ++i) {
        auto reach = (*w[i + 2].constant() - 1) * of.dilations[i];
        auto beyond = (y[i + 2] - x[i + 2]).constant();
        if (of.strides[i] != 1 || !beyond) return std::nullopt;
        window.pads_begin.push_back(reach - of.pads_begin[i]);
        window.pads_end.push_back(*beyond + of.pads_begin[i]);
        if (window.pads_begin.back() < 0 || window.pads_end.back() < 0) return std::nullopt;
    }
    return window;
}

bool untranspose(Graph& graph, NodePtr node) {
    auto const* info = info_of<kernel::ConvTransposeInfo>(*node->value.op);
    if (!info || info->channels_last || !node->value.op->params().empty()) return false;
    auto *w = node->input(1), *y = node->output();
    bool whole = bits_of(w->value.dtype) % 8 == 0;
    if (!w->value.constant || !whole || w->value.shape.size() < 3) return false;
    auto weights = weights_of(w->value.shape, info->group);
    if (!weights || weights->inputs < 1 || weights->outputs < 1 || weights->taps < 1) return false;
    auto const& x = node->input(0)->value.shape;
    bool single = std::all_of(x.begin() + 2, x.end(), [](auto const& size) { return size == DimExpr(1); });
    auto window = window_of(node, info->window);
    if (!window || single) return false;
    auto inputs = std::vector<EdgePtr>(node->inputs().begin(), node->inputs().end());
    inputs[1] = turned(graph, w, *weights);
    kernel::ConvInfo conv{std::move(*window), info->group, info->epilogue, false, info->may_round};
    auto* made = graph.insert({node->value.name, make_operator(std::move(conv))}, inputs);
    made->output()->value = y->value;
    graph.replace_all_uses(y, made->output());
    graph.erase_unused(node);
    return true;
}

}  // namespace

int untranspose_convolutions(Model& model, PassContext const&) {
    int changed = 0;
    for (auto* node : model.graph.topological()) changed += untranspose(model.graph, node);
    return changed;
}

}  // namespace refactor::computation
