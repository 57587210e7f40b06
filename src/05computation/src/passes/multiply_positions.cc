#include "passes/multiply_positions.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/insert_step.h"

namespace refactor::computation {

namespace {

EdgePtr reshape(Graph& graph, EdgePtr from, std::string_view what, Shape shape) {
    return insert_step(graph, from, what, std::make_shared<Reshape>(), {from}, std::move(shape));
}

/// Elements of a map of a channel if each is one tap of the kernel, times the only position.
std::optional<int64_t> taps_of(kernel::ConvTransposeInfo const& info, Shape const& x, Shape const& w, Shape const& y) {
    int64_t taps = 1;
    for (size_t axis = 2; axis < x.size(); ++axis) {
        auto position = x[axis].constant(), size = y[axis].constant(), kernel = w[axis].constant();
        auto first = info.window.pads_begin[axis - 2];
        if (position != 1 || !size || !kernel || first < 0 || first + *size > *kernel || *size < 1) return std::nullopt;
        if (info.window.dilations[axis - 2] != 1 && *kernel > 1) return std::nullopt;
        taps *= *size;
    }
    return taps;
}

/// The constant weights [C, M, taps…] as [C, M · taps that are read].
EdgePtr columns_of(Graph& graph, EdgePtr w, kernel::Window const& window, Shape const& y, int64_t taps) {
    auto read = w->value.shape;
    std::vector<DimExpr> starts(2, DimExpr(0));
    for (size_t axis = 2; axis < read.size(); ++axis)
        read[axis] = y[axis], starts.push_back(window.pads_begin[axis - 2]);
    if (!(read == w->value.shape))
        w = insert_step(graph, w, "read", make_operator(kernel::SliceInfo{Dims(read.size(), 1)}, starts), {w}, read);
    return reshape(graph, w, "columns", {read[0], read[1] * taps});
}

bool multiply(Graph& graph, NodePtr node) {
    auto const* info = info_of<kernel::ConvTransposeInfo>(*node->value.op);
    if (!info || info->group != 1 || info->channels_last || !node->value.op->params().empty()) return false;
    auto *x = node->input(0), *w = node->input(1), *y = node->output();
    if (x->value.dtype != DataType::F32 || w->value.dtype != DataType::F32 || !w->value.constant) return false;
    auto taps = taps_of(*info, x->value.shape, w->value.shape, y->value.shape);
    if (!taps) return false;
    auto const &batch = x->value.shape[0], channels = w->value.shape[1];
    auto inputs = std::vector<EdgePtr>(node->inputs().begin(), node->inputs().end());
    inputs[0] = reshape(graph, x, "row", {batch, w->value.shape[0]});
    inputs[1] = columns_of(graph, w, info->window, y->value.shape, *taps);
    size_t next = 2;
    if (info->epilogue.bias) {
        auto* bias = reshape(graph, inputs[next], "channels", {channels, DimExpr(1)});
        bias =
            insert_step(graph, bias, "maps", make_operator(kernel::ExpandInfo{}), {bias}, {channels, DimExpr(*taps)});
        inputs[next++] = reshape(graph, bias, "columns", {channels * *taps});
    }
    if (info->epilogue.residual) inputs[next] = reshape(graph, inputs[next], "columns", {batch, channels * *taps});
    kernel::MatMulInfo product;
    product.epilogue = info->epilogue;
    auto* made = graph.insert({node->value.name, make_operator(product)}, inputs);
    auto& row = made->output()->value = y->value;
    row.name += ".row", row.keep = false, row.shape = {batch, channels * *taps};
    auto* last = graph.insert({node->value.name + ".reshape", std::make_shared<Reshape>()}, {made->output()});
    last->output()->value = y->value;
    graph.replace_all_uses(y, last->output());
    graph.erase_unused(node);
    return true;
}

}  // namespace

int multiply_positions(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological()) changes += multiply(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
