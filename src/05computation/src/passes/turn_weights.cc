#include "passes/turn_weights.h"

#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/few_rows.h"
#include "passes/insert_step.h"

#include <unordered_map>

namespace refactor::computation {

namespace {

bool has_few_rows(EdgePtr a) { return rows_of(a->value.shape).constant().value_or(1) <= kFewRows; }

}  // namespace

int turn_weights(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    std::unordered_map<EdgePtr, EdgePtr> turned;
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        auto const* found = info_of<kernel::MatMulInfo>(*node->value.op);
        if (!found || found->trans_a || found->trans_b) continue;
        auto *a = node->input(0), *b = node->input(1);
        auto const& shape = b->value.shape;
        bool weights = b->value.constant && shape.size() == 2 && (is_float(b->value.dtype) || found->scaled);
        if (!weights || !has_few_rows(a)) continue;
        auto& columns = turned[b];
        if (!columns)
            columns = insert_step(model.graph, b, "turned", make_operator(kernel::TransposeInfo{{1, 0}}), {b},
                                  {shape[1], shape[0]});
        auto info = *found;
        info.trans_b = true;
        std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
        inputs[1] = columns;
        auto* made = model.graph.insert({node->value.name, make_operator(info)}, inputs);
        made->output()->value = node->output()->value;
        model.graph.replace_all_uses(node->output(), made->output());
        model.graph.erase(node);
        ++changes;
    }
    return changes;
}

}  // namespace refactor::computation
