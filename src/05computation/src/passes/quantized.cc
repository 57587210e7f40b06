#include "passes/quantized.h"

#include "passes/constants.h"
#include "passes/quantized_matrix.h"

namespace refactor::computation {

namespace {

bool is_byte(DataType type) { return type == DataType::U8 || type == DataType::I8; }

std::optional<Quantum> quantum(DataType dtype, EdgePtr scale, EdgePtr zero) {
    auto scales = numbers_of(scale), zeros = zero ? numbers_of(zero) : std::vector<double>{0};
    if (!scales || !zeros || scales->size() != 1 || zeros->size() != 1 || !((*scales)[0] > 0)) return std::nullopt;
    return Quantum{dtype, static_cast<float>((*scales)[0]), static_cast<int32_t>((*zeros)[0])};
}

}  // namespace

std::optional<QuantizedOperand> dequantized(EdgePtr edge) {
    auto const* info = producer_info<kernel::DequantizeInfo>(edge);
    if (!info || edge->value.dtype != DataType::F32) return std::nullopt;
    auto* node = edge->producer();
    if (!is_byte(node->input(0)->value.dtype) || !node->input(1)->value.constant ||
        node->input(1)->value.dtype != DataType::F32)
        return std::nullopt;
    if (node->input(2) && !node->input(2)->value.constant) return std::nullopt;
    return QuantizedOperand{node->input(0), node->input(1), node->input(2), info->granularity};
}

std::optional<Quantum> quantum_of(QuantizedOperand const& operand) {
    if (operand.granularity.block) return std::nullopt;
    return quantum(operand.data->value.dtype, operand.scale, operand.zero);
}

std::optional<Quantum> quantizer(NodePtr node) {
    auto const* info = info_of<kernel::QuantizeInfo>(*node->value.op);
    auto to = node->output()->value.dtype;
    if (!info || info->granularity.block || info->precision != DataType::F32 || !is_byte(to)) return std::nullopt;
    if (node->input(0)->value.dtype != DataType::F32) return std::nullopt;
    return quantum(to, node->input(1), node->input(2));
}

void widen_weights(Graph& graph, NodePtr node) {
    auto const* info = node->inputs().size() > 1 ? producer_info<kernel::DequantizeInfo>(node->input(1)) : nullptr;
    if (!info || info->granularity.block || !dequantized(node->input(0))) return;
    auto* dequantize = node->input(1)->producer();
    auto is_small = [](EdgePtr edge) {
        return edge->value.constant && is_integer(edge->value.dtype) && bits_of(edge->value.dtype) < 8;
    };
    if (!is_small(dequantize->input(0)) || (dequantize->input(2) && !is_small(dequantize->input(2)))) return;
    for (size_t i : {0, 2})
        if (auto* edge = dequantize->input(i)) graph.set_input(dequantize, i, in_bytes(graph, edge));
}

}  // namespace refactor::computation
