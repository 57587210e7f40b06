#include "passes/slice_gathers.h"

#include "kernel/ops/movement.h"
#include "passes/constants.h"

namespace refactor::computation {

namespace {

/// The index that `node` picks, from the beginning of its axis.
std::optional<int64_t> picked(NodePtr node, size_t axis) {
    auto const &x = node->input(0)->value, &indices = node->input(1)->value;
    auto size = x.shape[axis].constant();
    if (!size || x.constant || element_count(indices.shape) != DimExpr(1)) return std::nullopt;
    if (!is_float(x.dtype) && !is_integer(x.dtype)) return std::nullopt;
    auto numbers = numbers_of(node->input(1));
    if (!numbers) return std::nullopt;
    auto index = static_cast<int64_t>(numbers->front());
    if (index < -*size || index >= *size) return std::nullopt;
    return index < 0 ? index + *size : index;
}

bool slice(Graph& graph, NodePtr node) {
    auto const* gather = info_of<kernel::GatherInfo>(*node->value.op);
    if (!gather) return false;
    auto const axis = static_cast<size_t>(gather->axis);
    auto index = picked(node, axis);
    if (!index) return false;
    auto* x = node->input(0);
    auto shape = x->value.shape;
    std::vector<DimExpr> starts(shape.size(), DimExpr(0));
    shape[axis] = 1, starts[axis] = *index;
    auto* cut = graph.insert({node->value.name, make_operator(kernel::SliceInfo{Dims(shape.size(), 1)}, starts)}, {x});
    auto const& y = node->output()->value;
    cut->output()->value = {y.name + ".cut", y.dtype, std::move(shape), {}, nullptr, false};
    auto* last = graph.insert({node->value.name + ".reshape", std::make_shared<Reshape>()}, {cut->output()});
    last->output()->value = y;
    graph.replace_all_uses(node->output(), last->output());
    graph.erase_unused(node);
    return true;
}

}  // namespace

int slice_gathers(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (node->alive()) changes += slice(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
