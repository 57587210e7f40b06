#include "passes/scale_channels.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "passes/constants.h"
#include "passes/expression.h"
#include "passes/insert_step.h"

#include <algorithm>

namespace refactor::computation {

namespace {

bool all_are(Dims const& dims, int64_t value) {
    return std::all_of(dims.begin(), dims.end(), [&](int64_t d) { return d == value; });
}

bool is_scaling(NodePtr node) {
    auto const* info = info_of<kernel::ConvInfo>(*node->value.op);
    if (!info || info->channels_last || info->epilogue.residual || !node->value.op->params().empty() ||
        info->epilogue.activation.kind != kernel::ActivationKind::None)
        return false;
    auto const &x = node->input(0)->value.shape, &w = node->input(1)->value.shape;
    if (!(x[1] == DimExpr(info->group)) || !(w[0] == DimExpr(info->group)) || info->group < 2) return false;
    for (size_t axis = 1; axis < w.size(); ++axis)
        if (!(w[axis] == DimExpr(1))) return false;
    auto const& window = info->window;
    return all_are(window.strides, 1) && all_are(window.pads_begin, 0) && all_are(window.pads_end, 0);
}

/// Weights or bias as [C, 1…].
EdgePtr of_channels(Graph& graph, EdgePtr given, Shape const& shape) {
    auto const& value = given->value;
    if (value.constant) return add_constant(graph, value.name + ".channels", value.dtype, shape, value.constant);
    return insert_step(graph, given, "channels", std::make_shared<Reshape>(), {given}, shape);
}

void scale(Graph& graph, NodePtr node) {
    auto* y = node->output();
    Shape channels(y->value.shape.size() - 1, DimExpr(1));
    channels[0] = y->value.shape[1];
    auto* edge = node->input(0);
    kernel::ExprOp const ops[] = {kernel::ExprOp::Mul, kernel::ExprOp::Add};
    for (size_t i = 1; i < node->inputs().size(); ++i) {
        auto* operand = of_channels(graph, node->input(i), channels);
        auto step = make_expression(ops[i - 1], y->value.dtype, {edge, operand});
        edge =
            insert_step(graph, y, i == 1 ? "scaled" : "shifted",
                        make_operator(kernel::ElementwiseInfo{step.code, step.outputs}), step.inputs, y->value.shape);
    }
    edge->value = y->value;
    graph.replace_all_uses(y, edge);
    graph.erase_unused(node);
}

}  // namespace

int scale_channels(Model& model, PassContext const&) {
    int changed = 0;
    for (auto* node : model.graph.topological()) {
        if (!is_scaling(node)) continue;
        scale(model.graph, node);
        ++changed;
    }
    return changed;
}

}  // namespace refactor::computation
