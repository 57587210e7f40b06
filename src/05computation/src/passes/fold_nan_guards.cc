#include "passes/fold_nan_guards.h"

#include "kernel/ops/reduce.h"
#include "passes/expression.h"

namespace refactor::computation {

using kernel::ExprOp;

namespace {

/// Instruction `i` is isnan(p).
bool is_test(Expression const& expression, size_t i, EdgePtr p) {
    auto const& test = expression.code[i];
    return test.op == ExprOp::IsNan && expression.input(test.operands[0]) == p;
}
/// Instruction `i` is where(isnan(p), 0, p).
bool is_guard(Expression const& expression, size_t i, EdgePtr p) {
    auto const& where = expression.code[i];
    return where.op == ExprOp::Where && expression.input(where.operands[2]) == p &&
           is_test(expression, where.operands[0], p) && expression.constant(where.operands[1]) == 0;
}

/// Replaces guards of `p` by it. False, and nothing changed, if p is read otherwise too or is a result.
bool remove_guards(Expression& expression, EdgePtr p) {
    auto changed = expression;
    int guards = 0;
    for (size_t i = 0; i < expression.code.size(); ++i) {
        auto const& instruction = expression.code[i];
        if (instruction.op == ExprOp::Input) continue;
        bool guard = is_guard(expression, i, p), part = guard || is_test(expression, i, p);
        guards += guard;
        for (int k = 0; k < kernel::arity_of(instruction.op); ++k) {
            auto operand = instruction.operands[k];
            if (!part && expression.input(operand) == p) return false;
            if (!guard && is_test(expression, operand, p)) return false;
            if (is_guard(expression, operand, p)) changed.code[i].operands[k] = expression.code[operand].operands[2];
        }
    }
    for (auto output : expression.outputs)
        if (expression.input(output) == p || is_test(expression, output, p) || is_guard(expression, output, p))
            return false;
    changed.normalize();
    if (guards) expression = std::move(changed);
    return guards > 0;
}

bool fold(Graph& graph, NodePtr softmax) {
    auto const* info = info_of<kernel::SoftmaxInfo>(*softmax->value.op);
    if (!info || info->log || softmax->output()->value.keep) return false;
    auto* p = softmax->output();
    auto* reader = p->only_consumer();
    if (!reader || !info_of<kernel::ElementwiseInfo>(*reader->value.op)) return false;
    auto expression = Expression::of(reader);
    expression.normalize();
    if (!remove_guards(expression, p)) return false;
    expression.store(graph, reader);
    auto guarded = *info;
    guarded.nan_to_zero = true;
    softmax->value.op = make_operator(guarded);
    return true;
}

}  // namespace

int fold_nan_guards(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int folded = 0;
    for (auto* node : model.graph.topological()) folded += fold(model.graph, node);
    return folded;
}

}  // namespace refactor::computation
