#include "passes/pool_means.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/reduce.h"

namespace refactor::computation {

namespace {

/// Axes 2, 3, … of an image [N, C, spatial…].
bool is_spatial_mean(NodePtr node) {
    auto const* info = info_of<kernel::ReduceInfo>(*node->value.op);
    if (!info || info->kind != kernel::ReduceKind::Mean || !node->value.op->params().empty()) return false;
    auto const& x = node->input(0)->value;
    if (x.dtype != DataType::F32 || x.shape.size() < 3 || x.shape.size() > 5) return false;
    Dims spatial;
    for (size_t axis = 2; axis < x.shape.size(); ++axis) spatial.push_back(static_cast<int64_t>(axis));
    return info->axes == spatial;
}

void pool(Graph& graph, NodePtr node) {
    auto *x = node->input(0), *y = node->output();
    auto* made = graph.insert({node->value.name, make_operator(kernel::GlobalPoolInfo{})}, {x});
    auto* last = made;
    if (y->value.shape.size() < x->value.shape.size()) {
        auto& pooled = made->output()->value = y->value;
        pooled.name += ".pooled", pooled.keep = false;
        pooled.shape.resize(x->value.shape.size(), DimExpr(1));
        last = graph.insert({node->value.name + ".reshape", std::make_shared<Reshape>()}, {made->output()});
    }
    last->output()->value = y->value;
    graph.replace_all_uses(y, last->output());
    graph.erase_unused(node);
}

}  // namespace

int pool_means(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (is_spatial_mean(node)) pool(model.graph, node), ++changes;
    return changes;
}

}  // namespace refactor::computation
