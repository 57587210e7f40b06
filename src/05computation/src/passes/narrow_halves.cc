#include "passes/narrow_halves.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/matmul.h"

namespace refactor::computation {

namespace {

/// What a node that does nothing but cast reads; null for other nodes.
EdgePtr cast_of(NodePtr node) {
    auto const* info = node ? info_of<kernel::ElementwiseInfo>(*node->value.op) : nullptr;
    bool casts = info && node->inputs().size() == 1 && info->code.size() == 2 && info->outputs.size() == 1 &&
                 info->code[info->outputs[0]].op == kernel::ExprOp::Cast;
    return casts ? node->input(0) : nullptr;
}

/// Whether an input of such a node has the type of the others.
bool is_operand(NodePtr node, size_t input) {
    if (auto const* attention = info_of<kernel::AttentionInfo>(*node->value.op))
        return !attention->has_mask || input != 3;
    return input == kernel::BlockMatMulInfo::kA;
}

bool narrow(Graph& graph, NodePtr node) {
    auto const& op = *node->value.op;
    bool narrows = info_of<kernel::AttentionInfo>(op) || info_of<kernel::BlockMatMulInfo>(op);
    auto* y = node->output();
    auto* back = narrows && !y->value.keep && !y->is_output() ? y->only_consumer() : nullptr;
    if (!back || y->value.dtype != DataType::F32 || !cast_of(back)) return false;
    auto type = back->output()->value.dtype;
    if (type != DataType::F16 && type != DataType::BF16) return false;
    std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (!is_operand(node, i)) continue;
        auto* from = inputs[i]->producer() ? cast_of(inputs[i]->producer()) : nullptr;
        if (!from || from->value.dtype != type) return false;
        inputs[i] = from;
    }
    auto* made = graph.insert({node->value.name, node->value.op}, inputs);
    made->output()->value = back->output()->value;
    graph.replace_all_uses(back->output(), made->output());
    graph.erase(back);
    graph.erase(node);
    return true;
}

}  // namespace

int narrow_halves(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological()) changes += narrow(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
