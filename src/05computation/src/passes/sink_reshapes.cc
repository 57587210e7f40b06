#include "passes/sink_reshapes.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"

namespace refactor::computation {

namespace {

/// Operands that a Reshape made matrices.
struct Unmerged {
    EdgePtr edge = nullptr;  ///< before that; null: there is none
    Shape shape;             ///< [..., M, K]: the axes of `edge`, the last of which may be several that are K together
};

Unmerged unmerged(EdgePtr matrix) {
    auto* node = matrix->producer();
    if (!node || !node->value.op->is_alias() || matrix->value.shape.size() != 2) return {};
    auto* before = node->input(0);
    auto const& from = before->value.shape;
    DimExpr columns(1);
    for (auto i = from.size(); i-- > 2;) {
        columns = columns * from[i];
        if (columns != matrix->value.shape.back()) continue;
        Shape shape(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(i));
        shape.push_back(columns);
        return {before, shape};
    }
    return {};
}

NodePtr insert(Graph& graph, std::string const& name, std::shared_ptr<Operator const> op,
               std::vector<EdgePtr> const& inputs, Edge value) {
    auto* node = graph.insert({name, std::move(op)}, inputs);
    node->output()->value = std::move(value);
    return node;
}

EdgePtr reshaped(Graph& graph, std::string const& name, Unmerged const& rows) {
    auto const& value = rows.edge->value;
    if (value.shape == rows.shape) return rows.edge;
    return insert(graph, name, std::make_shared<Reshape>(), {rows.edge},
                  {value.name + ".rows", value.dtype, rows.shape, {}, nullptr, false})
        ->output();
}

/// The node on operands with other axes in front of the last, and its Reshape behind it.
void rebuild(Graph& graph, NodePtr node, std::vector<EdgePtr> const& inputs, Shape rows) {
    auto const value = node->output()->value;
    rows.back() = value.shape.back();
    auto* above = insert(graph, node->value.name, node->value.op, inputs,
                         {value.name + ".unmerged", value.dtype, std::move(rows), {}, nullptr, false});
    auto* merged = insert(graph, node->value.name, std::make_shared<Reshape>(), {above->output()}, value);
    graph.replace_all_uses(node->output(), merged->output());
    graph.erase(node);
}

bool sink_below_product(Graph& graph, NodePtr node, kernel::MatMulInfo const& info) {
    if (info.trans_a || info.epilogue.residual || node->input(1)->value.shape.size() != 2) return false;
    auto rows = unmerged(node->input(0));
    if (!rows.edge) return false;
    std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
    inputs[0] = reshaped(graph, node->value.name, rows);
    rebuild(graph, node, inputs, rows.shape);
    return true;
}

/// Only behind a product, for others gain nothing.
bool sink_below_elementwise(Graph& graph, NodePtr node) {
    if (node->outputs().size() != 1) return false;
    auto const& shape = node->output()->value.shape;
    std::vector<EdgePtr> inputs;
    Unmerged rows;
    bool behind_product = false;
    for (auto* input : node->inputs()) {
        auto const& of = input->value.shape;
        auto before = unmerged(input);
        if (before.edge && of == shape && (!rows.edge || before.shape == rows.shape)) {
            auto const* producer = before.edge->producer();
            behind_product |= producer && (info_of<kernel::MatMulInfo>(*producer->value.op) ||
                                           info_of<kernel::ElementwiseInfo>(*producer->value.op));
            rows = before;
            inputs.push_back(reshaped(graph, node->value.name, before));
        } else if (of.size() < 2 || (of.size() == 2 && of[0] == DimExpr(1) && shape[0] != DimExpr(1))) {
            inputs.push_back(input);
        } else {
            return false;
        }
    }
    if (!behind_product) return false;
    rebuild(graph, node, inputs, rows.shape);
    return true;
}

/// Rows of a product, or of what follows it, that stay merged, as a Reshape alone reads them; null for everything else.
EdgePtr merged_rows(EdgePtr input, Shape const& shape) {
    auto* node = input->producer();
    if (input->value.shape != shape || !input->only_consumer() || !node || !node->value.op->is_alias()) return nullptr;
    auto* rows = node->input(0);
    bool whole = rows->value.shape.size() == 2 && rows->value.shape.back() == shape.back() && rows->only_consumer();
    auto* product = whole ? rows->producer() : nullptr;
    bool follows = product && (info_of<kernel::MatMulInfo>(*product->value.op) ||
                               info_of<kernel::ElementwiseInfo>(*product->value.op));
    return follows ? rows : nullptr;
}

/// What follows such a product element by element takes its rows merged, too.
bool merge_rows(Graph& graph, NodePtr node) {
    auto const& shape = node->output()->value.shape;
    if (node->outputs().size() != 1 || shape.size() < 2) return false;
    EdgePtr rows = nullptr;
    for (auto* input : node->inputs()) {
        if (!rows) rows = merged_rows(input, shape);
        if (input->value.shape.size() > 1 && input->value.shape != shape) return false;
    }
    if (!rows) return false;
    auto const merged = rows->value.shape;
    std::vector<EdgePtr> inputs;
    for (auto* input : node->inputs()) {
        bool full = input->value.shape == shape;
        inputs.push_back(!full ? input : reshaped(graph, node->value.name, {input, merged}));
    }
    rebuild(graph, node, inputs, merged);
    return true;
}

}  // namespace

int sink_reshapes(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (!node->alive() || node->outputs().empty() || node->output()->value.keep) continue;
        if (auto const* product = info_of<kernel::MatMulInfo>(*node->value.op))
            changes += sink_below_product(model.graph, node, *product);
        else if (info_of<kernel::ElementwiseInfo>(*node->value.op))
            changes += sink_below_elementwise(model.graph, node) || merge_rows(model.graph, node);
    }
    return changes;
}

}  // namespace refactor::computation
