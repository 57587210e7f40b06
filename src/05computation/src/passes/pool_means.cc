#include "passes/pool_means.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/reduce.h"

namespace refactor::computation {

namespace {

/// Of axes 2, 3, … of an image [N, C, spatial…].
std::optional<kernel::PoolKind> spatial_kind(NodePtr node) {
    auto const* info = info_of<kernel::ReduceInfo>(*node->value.op);
    if (!info || !node->value.op->params().empty()) return std::nullopt;
    bool is_mean = info->kind == kernel::ReduceKind::Mean;
    if (!is_mean && info->kind != kernel::ReduceKind::Max) return std::nullopt;
    auto const& x = node->input(0)->value;
    if (x.dtype != DataType::F32 || x.shape.size() < 3 || x.shape.size() > 5) return std::nullopt;
    Dims spatial;
    for (size_t axis = 2; axis < x.shape.size(); ++axis) spatial.push_back(static_cast<int64_t>(axis));
    if (info->axes != spatial) return std::nullopt;
    return is_mean ? kernel::PoolKind::Average : kernel::PoolKind::Max;
}

void pool(Graph& graph, NodePtr node, kernel::PoolKind kind) {
    auto *x = node->input(0), *y = node->output();
    auto* made = graph.insert({node->value.name, make_operator(kernel::GlobalPoolInfo{kind})}, {x});
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
        if (auto kind = spatial_kind(node)) pool(model.graph, node, *kind), ++changes;
    return changes;
}

}  // namespace refactor::computation
