#include "passes/fold_transposes.h"

#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/attention_scores.h"
#include "passes/edges.h"

#include <algorithm>

namespace refactor::computation {

namespace {

/// The matrices of `edge` as `source` permuted by `perm` has them, but with rows for columns.
struct Exchanged {
    EdgePtr source = nullptr;  ///< null: there are none
    Dims perm;
    float factor = 1;
};

Exchanged before_exchange(EdgePtr edge) {
    Exchanged found;
    auto* moved = strip_scale(edge, found.factor);
    auto const* transpose = producer_info<kernel::TransposeInfo>(moved);
    if (!transpose || !is_private(moved) || transpose->perm.size() < 2) return {};
    found.perm = transpose->perm;
    auto const last = found.perm.size() - 1;
    if (found.perm[last - 1] != static_cast<int64_t>(last)) return {};
    std::swap(found.perm[last - 1], found.perm[last]);
    found.source = moved->producer()->input(0);
    return found;
}

EdgePtr permuted(Graph& graph, EdgePtr edge, Exchanged const& exchanged) {
    auto* source = exchanged.source;
    if (std::is_sorted(exchanged.perm.begin(), exchanged.perm.end())) return source;
    auto const name = edge->value.name + ".rows";
    auto shape = edge->value.shape;
    std::swap(shape[shape.size() - 2], shape.back());
    auto* node = graph.insert({name, make_operator(kernel::TransposeInfo{exchanged.perm})}, {source});
    node->output()->value = {name, edge->value.dtype, std::move(shape), {}, nullptr, false};
    return node->output();
}

/// One matrix for all rows of A, which are best next to each other: what moved them may join a Reorder, too.
bool shares_weights(NodePtr node) {
    auto const *a = node->input(0), *b = node->input(1);
    return b->value.shape.size() == 2 && (a->value.shape.size() > 2 || b->value.constant);
}

bool fold(Graph& graph, NodePtr node) {
    auto info = *info_of<kernel::MatMulInfo>(*node->value.op);
    bool changed = false;
    for (uint32_t side : {0u, 1u}) {
        auto* edge = node->input(side);
        if (!is_float(edge->value.dtype) || info.scaled || (side == 0 && shares_weights(node))) continue;
        auto const exchanged = before_exchange(edge);
        if (!exchanged.source) continue;
        auto& transposed = side == 0 ? info.trans_a : info.trans_b;
        transposed = !transposed, info.alpha *= exchanged.factor;
        auto* producer = edge->producer();
        graph.set_input(node, side, permuted(graph, edge, exchanged));
        graph.erase_unused(producer);
        changed = true;
    }
    if (changed) node->value.op = make_operator(info);
    return changed;
}

}  // namespace

int fold_transposes(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (node->alive() && info_of<kernel::MatMulInfo>(*node->value.op)) changes += fold(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
