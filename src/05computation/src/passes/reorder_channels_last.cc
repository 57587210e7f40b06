#include "passes/reorder_channels_last.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using kernel::Layout;

/// Whether axis `from` of a Transpose goes to `to`, all others staying in order.
bool moves_axis(NodePtr node, size_t from, size_t to) {
    auto const* info = node ? info_of<kernel::TransposeInfo>(*node->value.op) : nullptr;
    if (!info) return false;
    Dims order;
    for (size_t i = 0; i < info->perm.size(); ++i)
        if (i != from) order.push_back(static_cast<int64_t>(i));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), static_cast<int64_t>(from));
    return info->perm == order;
}
bool brings_channels_forward(NodePtr node) {
    auto rank = node ? node->input(0)->value.shape.size() : 0;
    return rank > 2 && moves_axis(node, rank - 1, 1);
}
bool brings_channels_to_the_end(NodePtr node) {
    auto rank = node ? node->input(0)->value.shape.size() : 0;
    return rank > 2 && moves_axis(node, 1, rank - 1);
}

/// A Reshape that keeps images and channels: [N, C, …].
bool divides_positions(NodePtr node) {
    if (!node || !node->value.op->is_alias()) return false;
    auto const &x = node->input(0)->value, &y = node->output()->value;
    return x.layout == Layout::Plain && y.layout == Layout::Plain && x.shape.size() > 2 && y.shape.size() > 2 &&
           x.shape[0] == y.shape[0] && x.shape[1] == y.shape[1];
}

bool is_intermediate(EdgePtr edge) { return edge->only_consumer() && !edge->value.keep; }

/// The tensor with channels at the end that `edge` is made of, by nodes that nothing else needs; or null.
EdgePtr source_of(EdgePtr edge) {
    if (is_intermediate(edge) && divides_positions(edge->producer())) edge = edge->producer()->input(0);
    if (!is_intermediate(edge) || !brings_channels_forward(edge->producer())) return nullptr;
    return edge->producer()->input(0);
}
/// The tensor with channels at the end that is all that is made of `edge`; or null.
EdgePtr result_of(EdgePtr edge) {
    if (!is_intermediate(edge)) return nullptr;
    if (divides_positions(edge->only_consumer())) edge = edge->only_consumer()->output();
    if (!is_intermediate(edge) || !brings_channels_to_the_end(edge->only_consumer())) return nullptr;
    return edge->only_consumer()->output();
}

/// The operand of an Elementwise node that makes `edge` of it alone and of scalars; or null.
EdgePtr operand_of(EdgePtr edge) {
    auto* node = is_intermediate(edge) ? edge->producer() : nullptr;
    if (!node || !info_of<kernel::ElementwiseInfo>(*node->value.op) || node->outputs().size() != 1) return nullptr;
    EdgePtr operand = nullptr;
    for (auto* input : node->inputs()) {
        auto const& shape = input->value.shape;
        if (std::all_of(shape.begin(), shape.end(), [](DimExpr const& size) { return size == DimExpr(1); })) continue;
        if (operand || shape != edge->value.shape || input->value.dtype != edge->value.dtype) return nullptr;
        operand = input;
    }
    return operand;
}

/// What is computed element by element between such a Transpose and the Reorder follows both.
bool merge_before_elementwise(Graph& graph, NodePtr node) {
    auto *x = node->input(0), *y = node->output();
    auto* operand = x->value.layout == Layout::Plain && y->value.layout != Layout::Plain ? operand_of(x) : nullptr;
    auto* from = operand ? source_of(operand) : nullptr;
    if (!from) return false;
    auto* made = graph.insert({node->value.name, make_operator(kernel::ReorderInfo{true})}, {from});
    made->output()->value = operand->value;
    made->output()->value.layout = y->value.layout, made->output()->value.name += ".blocked";
    std::vector<EdgePtr> inputs;
    for (auto* input : x->producer()->inputs()) inputs.push_back(input == operand ? made->output() : input);
    auto* behind = graph.insert(Node(x->producer()->value), inputs);
    behind->output()->value = y->value;
    graph.replace_all_uses(y, behind->output());
    graph.erase_unused(node);
    return true;
}

bool merge(Graph& graph, NodePtr node) {
    auto *x = node->input(0), *y = node->output();
    bool to_blocked = x->value.layout == Layout::Plain;
    if (to_blocked == (y->value.layout == Layout::Plain)) return false;
    auto *from = to_blocked ? source_of(x) : x, *to = to_blocked ? y : result_of(y);
    if (!from || !to) return false;
    auto* made = graph.insert({node->value.name, make_operator(kernel::ReorderInfo{true})}, {from});
    made->output()->value = to->value;
    graph.replace_all_uses(to, made->output());
    graph.erase_unused(to->producer());
    return true;
}

}  // namespace

int reorder_channels_last(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (!node->alive()) continue;
        auto const* info = info_of<kernel::ReorderInfo>(*node->value.op);
        if (info && !info->channels_last)
            changes += merge(model.graph, node) || merge_before_elementwise(model.graph, node);
    }
    return changes;
}

}  // namespace refactor::computation
