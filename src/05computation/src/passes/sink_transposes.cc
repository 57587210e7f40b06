#include "passes/sink_transposes.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"

#include <algorithm>

namespace refactor::computation {

namespace {

using Permutation = Dims;  ///< axis i behind the Transpose is axis [i] before it

Permutation const* permutation_of(NodePtr node) {
    auto const* transpose = info_of<kernel::TransposeInfo>(*node->value.op);
    bool plain = transpose && node->outputs().size() == 1 && node->input(0)->value.dtype == node->output()->value.dtype;
    return plain ? &transpose->perm : nullptr;
}

bool undoes(NodePtr node, Permutation const& perm) {
    auto const* back = permutation_of(node);
    if (!back || back->size() != perm.size()) return false;
    for (size_t i = 0; i < perm.size(); ++i)
        if (perm[static_cast<size_t>((*back)[i])] != static_cast<int64_t>(i)) return false;
    return true;
}

/// What `perm` made `edge` of, or null.
EdgePtr before(EdgePtr edge, Permutation const& perm) {
    auto const* own = edge->producer() ? permutation_of(edge->producer()) : nullptr;
    return own && *own == perm ? edge->producer()->input(0) : nullptr;
}

bool is_vector(EdgePtr edge) {
    auto const& shape = edge->value.shape;
    return std::count(shape.begin(), shape.end(), DimExpr(1)) + 1 >= static_cast<int64_t>(shape.size());
}

/// An elementwise node whose operands, but for `chain`, can be had as they are before `perm`.
bool can_precede(NodePtr node, EdgePtr chain, Permutation const& perm) {
    if (!info_of<kernel::ElementwiseInfo>(*node->value.op) || node->outputs().size() != 1) return false;
    return std::all_of(node->inputs().begin(), node->inputs().end(),
                       [&](EdgePtr input) { return input == chain || before(input, perm) || is_vector(input); });
}

/// What follows are elementwise nodes one after the other, and then nothing but transposes that undo `perm`.
bool is_undone(EdgePtr edge, Permutation const& perm) {
    for (auto* next = edge->only_consumer(); next && can_precede(next, edge, perm); next = edge->only_consumer()) {
        if (edge->value.keep) return false;
        edge = next->output();
    }
    auto const uses = edge->consumers();
    return !edge->value.keep && !edge->is_output() && !uses.empty() &&
           std::all_of(uses.begin(), uses.end(), [&](auto const& use) { return undoes(use.node, perm); });
}

/// The axes of `shape`, the last of those behind the Transpose, in their order before it.
Shape moved(Shape const& shape, Permutation const& perm) {
    Shape axes(perm.size(), DimExpr(1));
    auto lead = perm.size() - shape.size();
    for (size_t i = 0; i < shape.size(); ++i) axes[static_cast<size_t>(perm[lead + i])] = shape[i];
    return axes;
}

EdgePtr moved_vector(Graph& graph, EdgePtr vector, Permutation const& perm) {
    auto value = vector->value;
    value.shape = moved(value.shape, perm);
    while (!value.shape.empty() && value.shape.front() == DimExpr(1)) value.shape.erase(value.shape.begin());
    if (value.shape == vector->value.shape) return vector;
    value.name += ".moved", value.keep = false;
    if (value.constant) return graph.add_source(std::move(value));
    auto* reshape = graph.insert({value.name, std::make_shared<Reshape>()}, {vector});
    reshape->output()->value = std::move(value);
    return reshape->output();
}

bool sink(Graph& graph, NodePtr node) {
    Permutation const* found = nullptr;
    for (auto* input : node->inputs())
        if (!found && input->producer() && input->value.shape == node->output()->value.shape)
            found = permutation_of(input->producer());
    if (!found || !can_precede(node, nullptr, *found) || !is_undone(node->output(), *found)) return false;
    auto const perm = *found;
    std::vector<EdgePtr> inputs;
    for (auto* input : node->inputs()) {
        auto* source = before(input, perm);
        inputs.push_back(source ? source : moved_vector(graph, input, perm));
    }
    auto const value = node->output()->value;
    auto* above = graph.insert(Node(node->value), inputs);
    above->output()->value = {value.name + ".before", value.dtype, moved(value.shape, perm), {}, nullptr, false};
    auto* transpose = graph.insert({node->value.name, make_operator(kernel::TransposeInfo{perm})}, {above->output()});
    transpose->output()->value = value;
    graph.replace_all_uses(node->output(), transpose->output());
    graph.erase(node);
    return true;
}

}  // namespace

int sink_transposes(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (info_of<kernel::ElementwiseInfo>(*node->value.op) && node->outputs().size() == 1)
            changes += sink(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
