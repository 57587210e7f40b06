#include "passes/remove_identities.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/recurrent.h"
#include "mem_manager/blob.h"

#include <algorithm>

namespace refactor::computation {

namespace {

bool same_type(EdgePtr a, EdgePtr b) { return a->value.dtype == b->value.dtype && a->value.shape == b->value.shape; }

bool is_forwarding(kernel::ElementwiseInfo const& info) {
    using kernel::ExprOp;
    auto const& last = info.code[info.outputs[0]];
    if (info.outputs.size() != 1) return false;
    if (last.op == ExprOp::Input) return true;
    return last.op == ExprOp::Cast && info.code[last.operands[0]].op == ExprOp::Input &&
           info.code[last.operands[0]].dtype == last.dtype;
}

/// Whether a Slice or Pad between equal shapes begins where its input does.
bool begins_at_zero(Operator const& op) {
    return std::all_of(op.params().begin(), op.params().end(),
                       [](DimExpr const& start) { return start.constant() == 0; });
}

bool is_identity(NodePtr node) {
    auto const& op = *node->value.op;
    if (node->inputs().empty() || node->outputs().size() != 1 || !node->input(0)) return false;
    if (!same_type(node->input(0), node->output())) return false;
    if (op.is_alias() || info_of<kernel::CopyInfo>(op)) return true;
    if (info_of<kernel::ExpandInfo>(op)) return true;
    if (info_of<kernel::ConcatInfo>(op)) return node->inputs().size() == 1;
    if (info_of<kernel::SplitInfo>(op)) return true;
    if (auto const* transpose = info_of<kernel::TransposeInfo>(op)) {
        for (size_t i = 0; i < transpose->perm.size(); ++i)
            if (transpose->perm[i] != static_cast<int64_t>(i)) return false;
        return true;
    }
    if (auto const* slice = info_of<kernel::SliceInfo>(op)) {
        for (auto step : slice->steps)
            if (step != 1) return false;
        return begins_at_zero(op);
    }
    if (info_of<kernel::PadInfo>(op)) return begins_at_zero(op);
    auto const* elementwise = info_of<kernel::ElementwiseInfo>(op);
    return elementwise && node->inputs().size() == 1 && is_forwarding(*elementwise);
}

/// A transpose that writes what it reads, once.
bool is_plain(NodePtr node) {
    return node->outputs().size() == 1 && node->input(0)->value.dtype == node->output()->value.dtype;
}

/// The transpose keeps the order of all axes that can be longer than 1.
bool moves_only_ones(NodePtr node, kernel::TransposeInfo const& info) {
    int64_t previous = -1;
    for (auto axis : info.perm) {
        if (node->input(0)->value.shape[static_cast<size_t>(axis)] == DimExpr(1)) continue;
        if (axis < previous) return false;
        previous = axis;
    }
    return true;
}

bool merge_transposes(Graph& graph, NodePtr node, kernel::TransposeInfo const& outer) {
    auto const* inner = producer_info<kernel::TransposeInfo>(node->input(0));
    if (!inner || node->input(0)->value.keep || !is_plain(node->input(0)->producer())) return false;
    kernel::TransposeInfo both;
    for (auto axis : outer.perm) both.perm.push_back(inner->perm[static_cast<size_t>(axis)]);
    auto* source = node->input(0)->producer()->input(0);
    node->value.op = make_operator(std::move(both));
    graph.set_input(node, 0, source);
    return true;
}

/// Whether all elements are zero: of a constant, or moved or repeated from one.
bool is_zero(EdgePtr edge) {
    for (auto* node = edge->producer(); node; node = edge->producer()) {
        auto const& op = *node->value.op;
        if (!op.is_alias() && !info_of<kernel::ExpandInfo>(op) && !info_of<kernel::SliceInfo>(op) &&
            !info_of<kernel::TransposeInfo>(op))
            return false;
        edge = node->input(0);
    }
    if (!edge->value.constant) return false;
    mem_manager::Blob::Reader reader(*edge->value.constant);
    auto const* bytes = static_cast<char const*>(reader.data());
    return std::all_of(bytes, bytes + edge->value.constant->bytes(), [](char byte) { return byte == 0; });
}

/// Picks the only element of an axis, by an index of zero. One that is not known stays: it may be out of range.
bool picks_only_element(NodePtr node) {
    auto const& op = *node->value.op;
    auto const* gather = info_of<kernel::GatherInfo>(op);
    auto const* tuples = info_of<kernel::GatherNDInfo>(op);
    if (!gather && !(tuples && tuples->batch_dims == 0)) return false;
    auto const &x = node->input(0)->value.shape, &indices = node->input(1)->value.shape;
    auto is_one = [](DimExpr const& size) { return size == DimExpr(1); };
    return is_one(x[gather ? static_cast<size_t>(gather->axis) : 0]) &&
           std::all_of(indices.begin(), indices.end(), is_one) && is_zero(node->input(1));
}

/// A layer without initial states starts from zeros.
bool drop_zero_states(Graph& graph, NodePtr node, kernel::RecurrentInfo info) {
    auto c = size_t{3} + info.bias + info.lengths + info.initial_h, h = c - info.initial_h;
    bool zero_c = info.initial_c && is_zero(node->input(c)), zero_h = info.initial_h && is_zero(node->input(h));
    if (!zero_c && !zero_h) return false;
    if (zero_c) graph.remove_input(node, c), info.initial_c = false;
    if (zero_h) graph.remove_input(node, h), info.initial_h = false;
    auto const params = node->value.op->params();
    node->value.op = make_operator(std::move(info), {params.begin(), params.end()});
    return true;
}

/// Whether what an Elementwise node reads, with `source` in the place of input `slot`, has its shape all the same.
bool broadcasts_alike(NodePtr node, size_t slot, EdgePtr source) {
    auto const& shape = node->output()->value.shape;
    Shape made(shape.size(), DimExpr(1));
    for (size_t i = 0; i < node->inputs().size(); ++i) {
        auto const& from = (i == slot ? source : node->input(i))->value.shape;
        if (from.size() > made.size()) return false;
        for (size_t axis = 0; axis < from.size(); ++axis) {
            auto& size = made[made.size() - from.size() + axis];
            auto both = broadcast(size, from[axis]);
            if (!both) return false;
            size = *both;
        }
    }
    return made == shape;
}

/// Elementwise operators repeat elements themselves.
bool drop_expands(Graph& graph, NodePtr node) {
    for (size_t slot = 0; slot < node->inputs().size(); ++slot) {
        auto* edge = node->input(slot);
        auto const* info = producer_info<kernel::ExpandInfo>(edge);
        if (!info || info->tile || edge->value.keep) continue;
        auto* expand = edge->producer();
        if (!broadcasts_alike(node, slot, expand->input(0))) continue;
        graph.set_input(node, slot, expand->input(0));
        graph.erase_unused(expand);
        return true;
    }
    return false;
}

bool simplify(Graph& graph, NodePtr node) {
    auto const& op = *node->value.op;
    if (is_identity(node) && !node->output()->value.keep) {
        graph.replace_all_uses(node->output(), node->input(0));
        graph.erase(node);
        return true;
    }
    if (op.is_alias()) {
        auto* before = node->input(0)->producer();
        if (!before || !before->value.op->is_alias() || node->input(0)->value.keep) return false;
        graph.set_input(node, 0, before->input(0));
        return true;
    }
    if (auto const* recurrent = info_of<kernel::RecurrentInfo>(op)) return drop_zero_states(graph, node, *recurrent);
    if (info_of<kernel::ElementwiseInfo>(op)) return drop_expands(graph, node);
    if (picks_only_element(node)) {
        graph.remove_input(node, 1);
        node->value.op = std::make_shared<Reshape>();
        return true;
    }
    if (auto const* transpose = info_of<kernel::TransposeInfo>(op)) {
        if (merge_transposes(graph, node, *transpose)) return true;
        if (!is_plain(node) || !moves_only_ones(node, *transpose)) return false;
        node->value.op = std::make_shared<Reshape>();
        return true;
    }
    return false;
}

}  // namespace

int remove_identities(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological())
        while (node->alive() && simplify(model.graph, node)) ++changes;
    return changes;
}

}  // namespace refactor::computation
