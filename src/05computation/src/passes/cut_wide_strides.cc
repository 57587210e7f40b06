#include "passes/cut_wide_strides.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/movement.h"
#include "passes/insert_step.h"

namespace refactor::computation {

namespace {

/// From here on it costs the direct kernels more to gather the phases of a stride than to move the input once.
constexpr int64_t kWide = 33;

/// [A, C, frames * s] to [A, C * s, frames].
EdgePtr take_frames(Graph& graph, EdgePtr edge, DimExpr const& frames, int64_t stride) {
    auto const shape = edge->value.shape;
    if (auto used = frames * stride; !(used == shape[2])) {
        kernel::SliceInfo slice{{1, 1, 1}};
        edge = insert_step(graph, edge, "used", make_operator(slice, std::vector<DimExpr>(3, DimExpr(0))), {edge},
                           {shape[0], shape[1], used});
    }
    edge = insert_step(graph, edge, "frames", std::make_shared<Reshape>(), {edge},
                       {shape[0], shape[1], frames, DimExpr(stride)});
    edge = insert_step(graph, edge, "samples", make_operator(kernel::TransposeInfo{{0, 1, 3, 2}}), {edge},
                       {shape[0], shape[1], DimExpr(stride), frames});
    return insert_step(graph, edge, "channels", std::make_shared<Reshape>(), {edge},
                       {shape[0], shape[1] * stride, frames});
}

bool cut(Graph& graph, NodePtr node) {
    auto const* info = info_of<kernel::ConvInfo>(*node->value.op);
    if (!info || info->group != 1 || info->epilogue.residual || !node->value.op->params().empty()) return false;
    auto const& window = info->window;
    if (window.strides.size() != 1 || window.strides[0] < kWide || window.dilations[0] != 1 ||
        window.pads_begin[0] != 0 || window.pads_end[0] != 0)
        return false;
    auto stride = window.strides[0];
    auto *x = node->input(0), *w = node->input(1);
    auto taps = w->value.shape[2].constant();
    if (!taps || *taps % stride || x->value.layout != kernel::Layout::Plain) return false;
    auto const& positions = node->output()->value.shape[2];
    auto inputs = std::vector<EdgePtr>(node->inputs().begin(), node->inputs().end());
    inputs[0] = take_frames(graph, x, positions - 1 + *taps / stride, stride);
    inputs[1] = take_frames(graph, w, *taps / stride, stride);
    auto narrow = *info;
    narrow.window.strides[0] = 1;
    auto* made = graph.insert({node->value.name, make_operator(narrow)}, inputs);
    made->output()->value = node->output()->value;
    graph.replace_all_uses(node->output(), made->output());
    graph.erase_unused(node);
    return true;
}

}  // namespace

int cut_wide_strides(Model& model, PassContext const&) {
    int changed = 0;
    for (auto* node : model.graph.topological()) changed += cut(model.graph, node);
    return changed;
}

}  // namespace refactor::computation
