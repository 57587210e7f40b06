#include "ask_kernels.h"

namespace refactor::computation {

namespace {

kernel::Operand operand_of(EdgePtr edge) {
    kernel::Operand operand;
    if (!edge) return operand;
    operand.dtype = edge->value.dtype, operand.layout = edge->value.layout;
    for (auto const& size : edge->value.shape) operand.dims.push_back(size.constant().value_or(-1));
    operand.constant = edge->value.constant;
    return operand;
}

/// What kernels of the CPU say about another device helps nobody.
void keep_reasons_of(std::string_view device, std::string_view type, std::vector<kernel::Rejection>& reasons) {
    auto mark = ':' + std::string(device) + ':';
    std::erase_if(reasons, [&](auto const& r) { return r.reason.find(mark) == std::string::npos; });
    if (reasons.empty())
        reasons.push_back({std::string(type) + mark + " no kernel for " + std::string(device) + " yet"});
}

}  // namespace

kernel::Candidates ask_kernels(NodePtr node, PassContext const& context, std::string_view device,
                               mem_manager::Device* place) {
    auto const& op = *node->value.op;
    std::vector<kernel::Operand> inputs, outputs;
    for (auto* edge : node->inputs()) inputs.push_back(operand_of(edge));
    for (auto* edge : node->outputs()) outputs.push_back(operand_of(edge));
    auto candidates =
        op.candidates({inputs, outputs, device, context.isa, context.threads, context.options.precision, place});
    if (place && candidates.kernels.empty()) keep_reasons_of(device, op.type(), candidates.rejections);
    return candidates;
}

}  // namespace refactor::computation
