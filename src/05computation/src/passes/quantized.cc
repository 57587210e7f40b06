#include "passes/quantized.h"

#include "mem_manager/blob.h"

namespace refactor::computation {

namespace {

bool is_byte(DataType type) { return type == DataType::U8 || type == DataType::I8; }

EdgePtr add_constant(Graph& graph, std::string name, DataType dtype, Shape shape, void const* data, size_t bytes) {
    Edge edge;
    edge.name = std::move(name), edge.dtype = dtype, edge.shape = std::move(shape);
    edge.constant = mem_manager::Blob::copy_of(data, bytes);
    return graph.add_source(std::move(edge));
}

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

std::optional<std::vector<double>> numbers_of(EdgePtr edge) {
    auto count = element_count(edge->value.shape).constant();
    auto dtype = edge->value.dtype;
    if (!edge->value.constant || !count || (!is_float(dtype) && !is_integer(dtype))) return std::nullopt;
    std::vector<double> values(static_cast<size_t>(*count));
    if (!convert(dtype, edge->value.constant->data(), DataType::F64, values.data(), *count)) return std::nullopt;
    return values;
}

EdgePtr add_numbers(Graph& graph, std::string name, std::vector<float> const& values) {
    return add_constant(graph, std::move(name), DataType::F32, {DimExpr(static_cast<int64_t>(values.size()))},
                        values.data(), values.size() * sizeof(float));
}

EdgePtr add_numbers(Graph& graph, std::string name, std::vector<int32_t> const& values) {
    return add_constant(graph, std::move(name), DataType::I32, {DimExpr(static_cast<int64_t>(values.size()))},
                        values.data(), values.size() * sizeof(int32_t));
}

EdgePtr add_bytes(Graph& graph, std::string name, DataType byte, std::vector<double> const& values) {
    std::vector<uint8_t> bytes;
    for (auto value : values) bytes.push_back(static_cast<uint8_t>(static_cast<int32_t>(value)));
    Shape shape;
    if (bytes.size() > 1) shape.push_back(DimExpr(static_cast<int64_t>(bytes.size())));
    return add_constant(graph, std::move(name), byte, std::move(shape), bytes.data(), bytes.size());
}

EdgePtr add_scalar(Graph& graph, std::string name, DataType byte, int32_t value) {
    auto bits = static_cast<uint8_t>(value);
    return add_constant(graph, std::move(name), byte, {}, &bits, 1);
}

}  // namespace refactor::computation
