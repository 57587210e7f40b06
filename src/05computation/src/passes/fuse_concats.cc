#include "passes/fuse_concats.h"

#include "ask_kernels.h"
#include "kernel/ops/joined_elementwise.h"
#include "kernel/ops/movement.h"
#include "mem_manager/device.h"
#include "passes/expression.h"

#include <algorithm>

namespace refactor::computation {

namespace {

/// The concatenation that `edge` is, if `reader` is its only use.
NodePtr concat_of(EdgePtr edge, NodePtr reader) {
    auto* node = edge ? edge->producer() : nullptr;
    if (!node || !info_of<kernel::ConcatInfo>(*node->value.op) || node->outputs().size() != 1) return nullptr;
    if (edge->value.keep || edge->only_consumer() != reader) return nullptr;
    auto const& shape = edge->value.shape;
    for (auto* y : reader->outputs())
        if (!(y->value.shape == shape)) return nullptr;
    auto pieces = node->inputs();
    bool alike = std::all_of(pieces.begin(), pieces.end(),
                             [&](EdgePtr piece) { return piece->value.dtype == edge->value.dtype; });
    return alike ? node : nullptr;
}

/// The program of `node` with its input `first` in front of all others.
kernel::ElementwiseInfo with_first(Expression const& expression, uint16_t first) {
    kernel::ElementwiseInfo program{expression.code, expression.outputs};
    for (auto& code : program.code) {
        if (code.op != kernel::ExprOp::Input) continue;
        auto& number = code.operands[0];
        number = number == first ? 0 : static_cast<uint16_t>(number + (number < first ? 1 : 0));
    }
    return program;
}

class Fusion {
    Model& model_;
    PassContext const& context_;
    mem_manager::Device& place_;

    bool fuse(NodePtr node, uint16_t input, NodePtr concat) {
        auto expression = Expression::of(node);
        auto pieces = concat->inputs();
        kernel::JoinedElementwiseInfo info{with_first(expression, input),
                                           info_of<kernel::ConcatInfo>(*concat->value.op)->axis, pieces.size()};
        std::vector<EdgePtr> inputs(pieces.begin(), pieces.end());
        for (uint16_t i = 0; i < expression.inputs.size(); ++i)
            if (i != input) inputs.push_back(expression.inputs[i]);
        auto* made =
            model_.graph.insert({node->value.name, make_operator(std::move(info))}, inputs, node->outputs().size());
        for (size_t i = 0; i < node->outputs().size(); ++i) made->output(i)->value = node->output(i)->value;
        if (ask_kernels(made, context_, context_.options.device, &place_).kernels.empty()) {
            model_.graph.erase(made);
            return false;
        }
        for (size_t i = 0; i < node->outputs().size(); ++i)
            model_.graph.replace_all_uses(node->output(i), made->output(i));
        model_.graph.erase_unused(node);
        return true;
    }

public:
    Fusion(Model& model, PassContext const& context)
        : model_(model), context_(context), place_(mem_manager::find_device(context.options.device, 0)) {}

    bool visit(NodePtr node) {
        if (!node->alive() || !info_of<kernel::ElementwiseInfo>(*node->value.op)) return false;
        for (uint16_t i = 0; i < node->inputs().size(); ++i)
            if (auto* concat = concat_of(node->input(i), node)) return fuse(node, i, concat);
        return false;
    }
};

}  // namespace

int fuse_concats(Model& model, PassContext const& context) {
    if (context.options.device == "cpu") return 0;
    int changes = 0;
    Fusion fusion(model, context);
    for (auto* node : model.graph.topological()) changes += fusion.visit(node);
    return changes;
}

}  // namespace refactor::computation
