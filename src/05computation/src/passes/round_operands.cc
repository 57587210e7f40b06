#include "passes/round_operands.h"

#include "computation/operator.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/recurrent.h"
#include "passes/lower_precision.h"

namespace refactor::computation {

namespace {

/// Lets the node round, if it is of this type and multiplies f32.
template <class Info>
bool allow(NodePtr node) {
    auto const* found = info_of<Info>(*node->value.op);
    if (!found || node->input(0)->value.dtype != DataType::F32) return false;
    if constexpr (requires { found->quantized; })
        if (found->quantized) return false;
    auto info = *found;
    info.may_round = true;
    node->value.op = make_operator(info, {node->value.op->params().begin(), node->value.op->params().end()});
    return true;
}

std::string counted(int count, char const* what) {
    return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

}  // namespace

int round_operands(Model& model, PassContext const& context) {
    auto const& options = context.options;
    if (options.device != "cpu" || options.compute == DataType::Undefined) return 0;
    if (options.compute != DataType::BF16)
        return context.note("nothing is rounded: a CPU multiplies " + std::string(name_of(options.compute)) +
                            " no faster than f32"),
               0;
    if (context.isa < Isa::Avx512Bf16)
        return context.note("nothing is rounded: " + std::string(name_of(context.isa)) +
                            " multiplies bf16 no faster than f32"),
               0;
    std::vector<std::string> unknown;
    auto kept = nodes_kept_in_f32(model, context, &unknown);
    for (auto const& name : unknown) context.note("keep_f32: no node of this program is named \"" + name + '"');
    int products = 0, convolutions = 0, attentions = 0, layers = 0;
    for (auto* node : model.graph.topological()) {
        if (kept.contains(node)) continue;
        products += allow<kernel::MatMulInfo>(node),
            convolutions += allow<kernel::ConvInfo>(node) || allow<kernel::ConvTransposeInfo>(node),
            attentions += allow<kernel::AttentionInfo>(node), layers += allow<kernel::RecurrentInfo>(node);
    }
    auto changes = products + convolutions + attentions + layers;
    if (changes)
        context.note(counted(products, "product") + ", " + counted(convolutions, "convolution") + ", " +
                     counted(attentions, "attention") + " and " + counted(layers, "recurrent layer") +
                     " may round their operands to bf16");
    return changes;
}

}  // namespace refactor::computation
