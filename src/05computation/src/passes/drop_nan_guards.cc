#include "passes/drop_nan_guards.h"

#include "passes/constants.h"
#include "passes/expression.h"
#include "passes/quantized.h"

#include <algorithm>
#include <cmath>

namespace refactor::computation {

namespace {

using kernel::ExprOp;

/// The operands of a node that is one instruction `op`; empty if it is not.
std::vector<EdgePtr> operands_of(NodePtr node, ExprOp op) {
    auto const* info = node ? info_of<kernel::ElementwiseInfo>(*node->value.op) : nullptr;
    if (!info || info->outputs.size() != 1 || info->code[info->outputs[0]].op != op) return {};
    auto expression = Expression::of(node);
    auto const& instruction = expression.code[expression.outputs[0]];
    std::vector<EdgePtr> operands;
    for (int i = 0; i < kernel::arity_of(op); ++i) operands.push_back(expression.input(instruction.operands[i]));
    return operands;
}

bool is_number(EdgePtr edge) {
    auto operand = dequantized(edge);
    auto scales = operand ? numbers_of(operand->scale) : std::nullopt;
    return scales && std::all_of(scales->begin(), scales->end(), [](double x) { return std::isfinite(x); });
}

bool drop(Graph& graph, NodePtr node) {
    auto where = operands_of(node, ExprOp::Where);
    if (where.empty() || !where[0] || !where[2] || node->output()->value.keep) return false;
    auto *x = where[2], *y = node->output();
    auto test = operands_of(where[0]->producer(), ExprOp::IsNan);
    if (test.empty() || test[0] != x || !is_number(x)) return false;
    if (x->value.shape != y->value.shape || x->value.dtype != y->value.dtype) return false;
    graph.replace_all_uses(y, x);
    graph.erase_unused(node);
    return true;
}

}  // namespace

int drop_nan_guards(Model& model, PassContext const&) {
    int dropped = 0;
    for (auto* node : model.graph.topological())
        if (node->alive()) dropped += drop(model.graph, node);
    return dropped;
}

}  // namespace refactor::computation
