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

std::optional<QuantizedOperand> dequantized_weights(Graph& graph, EdgePtr edge) {
    auto is_small = [](EdgePtr operand) {
        return operand->value.constant && is_integer(operand->value.dtype) && bits_of(operand->value.dtype) < 8;
    };
    auto const* info = producer_info<kernel::DequantizeInfo>(edge);
    auto* node = edge->producer();
    if (info && !info->granularity.block && is_small(node->input(0)) && (!node->input(2) || is_small(node->input(2))))
        for (size_t i : {0, 2})
            if (auto* operand = node->input(i)) graph.set_input(node, i, in_bytes(graph, operand));
    return dequantized(edge);
}

}  // namespace refactor::computation
