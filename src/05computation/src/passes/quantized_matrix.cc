#include "passes/quantized_matrix.h"

#include "kernel/ops/elementwise.h"
#include "passes/constants.h"
#include "passes/fold_constants.h"

#include <algorithm>
#include <cmath>

namespace refactor::computation {

namespace {

bool is_packed_integer(DataType type) { return is_integer(type) && bits_of(type) <= 8; }
bool is_wide_float(DataType type) { return type == DataType::F32 || type == DataType::F16 || type == DataType::BF16; }
DataType byte_of(DataType type) { return is_signed(type) ? DataType::I8 : DataType::U8; }

/// An operand of `node`, which is computed if it can be.
EdgePtr known(Graph& graph, NodePtr node, size_t input) {
    auto* edge = node->input(input);
    if (edge && !edge->value.constant && edge->producer()) fold_constant(graph, edge->producer());
    edge = node->input(input);
    return edge && edge->value.constant ? edge : nullptr;
}

/// Such a matrix with its data, if that is one.
std::optional<QuantizedMatrix> with_data(EdgePtr data) {
    if (!data || !is_packed_integer(data->value.dtype) || data->value.shape.size() != 2) return std::nullopt;
    auto rows = data->value.shape[0].constant(), columns = data->value.shape[1].constant();
    if (!rows || !columns) return std::nullopt;
    return QuantizedMatrix{data, nullptr, nullptr, *rows, *columns, {}};
}

std::optional<QuantizedMatrix> dequantized_matrix(Graph& graph, NodePtr node) {
    auto m = with_data(known(graph, node, 0));
    if (!m) return std::nullopt;
    m->granularity = info_of<kernel::DequantizeInfo>(*node->value.op)->granularity;
    m->scale = known(graph, node, 1), m->zero = node->input(2) ? known(graph, node, 2) : nullptr;
    if (!m->scale || !is_wide_float(m->scale->value.dtype) || (node->input(2) && !m->zero)) return std::nullopt;
    return m;
}

/// Numbers that are broadcast to a matrix: one, or one for each index of an axis.
struct Broadcast {
    std::vector<double> numbers{0};
    int64_t axis = 0;

    bool is_one() const { return numbers.size() == 1; }
    double at(size_t i) const { return numbers[is_one() ? 0 : i]; }
};

/// Those of a constant; nothing if they are others.
std::optional<Broadcast> broadcast_of(EdgePtr constant, QuantizedMatrix const& m) {
    auto const& shape = constant->value.shape;
    auto numbers = numbers_of(constant);
    if (!numbers || !is_wide_float(constant->value.dtype)) return std::nullopt;
    auto size = [&](size_t from_end) {
        return shape.size() < from_end ? 1 : shape[shape.size() - from_end].constant().value_or(0);
    };
    auto count = static_cast<int64_t>(numbers->size());
    if (count == 1 || (size(1) == m.columns && count == m.columns)) return Broadcast{std::move(*numbers), 1};
    if (size(2) == m.rows && count == m.rows && size(1) == 1) return Broadcast{std::move(*numbers), 0};
    return std::nullopt;
}

/// `(cast(data) - zero) * scale`, of which either or both may be missing.
struct Arithmetic {
    QuantizedMatrix matrix;
    std::optional<Broadcast> scale, zero;
};

/// What Elementwise nodes of one instruction each compute so, at most `depth` behind the cast.
std::optional<Arithmetic> arithmetic_of(Graph& graph, EdgePtr edge, int depth) {
    auto* node = edge->producer();
    auto const* info = node ? info_of<kernel::ElementwiseInfo>(*node->value.op) : nullptr;
    if (!info || node->outputs().size() != 1 || info->code.size() != node->inputs().size() + 1 ||
        info->outputs[0] + 1u != info->code.size())
        return std::nullopt;
    auto const& last = info->code.back();
    if (last.op == kernel::ExprOp::Cast) {
        auto m = is_wide_float(last.dtype) ? with_data(known(graph, node, 0)) : std::nullopt;
        return m ? std::optional(Arithmetic{*m, {}, {}}) : std::nullopt;
    }
    bool multiplies = last.op == kernel::ExprOp::Mul, subtracts = last.op == kernel::ExprOp::Sub;
    if (depth == 0 || node->inputs().size() != 2 || (!multiplies && !subtracts)) return std::nullopt;
    for (size_t side = 0; side < (multiplies ? 2 : 1); ++side) {
        auto input = [&](size_t operand) { return info->code[last.operands[operand]].operands[0]; };
        auto found = arithmetic_of(graph, node->input(input(side)), depth - 1);
        if (!found || found->scale || (subtracts && found->zero)) continue;
        auto* other = known(graph, node, input(1 - side));
        auto numbers = other ? broadcast_of(other, found->matrix) : std::nullopt;
        if (!numbers) return std::nullopt;
        (multiplies ? found->scale : found->zero) = std::move(numbers);
        return found;
    }
    return std::nullopt;
}

bool are_of(DataType type, std::vector<double> const& numbers) {
    auto least = is_signed(type) ? -(1 << (bits_of(type) - 1)) : 0, most = least + (1 << bits_of(type)) - 1;
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](double x) { return x == std::floor(x) && x >= least && x <= most; });
}

std::optional<QuantizedMatrix> multiplied_matrix(Graph& graph, EdgePtr edge) {
    auto found = arithmetic_of(graph, edge, 2);
    if (!found) return std::nullopt;
    auto m = found->matrix;
    auto scale = found->scale.value_or(Broadcast{{1}, 1}), zero = found->zero.value_or(Broadcast{});
    if (!scale.is_one() && !zero.is_one() && scale.axis != zero.axis) return std::nullopt;
    if (found->zero && (bits_of(m.type()) != 8 || !are_of(m.type(), zero.numbers))) return std::nullopt;
    m.granularity.axis = scale.is_one() ? zero.axis : scale.axis;
    auto count = std::max(scale.numbers.size(), zero.numbers.size());
    std::vector<float> scales;
    std::vector<double> zeros;
    for (size_t i = 0; i < count; ++i) scales.push_back(static_cast<float>(scale.at(i))), zeros.push_back(zero.at(i));
    auto const& name = edge->value.name;
    m.scale = add_constant(graph, name + "/scale", count == 1 ? Shape{} : Shape{static_cast<int64_t>(count)}, scales);
    if (found->zero) m.zero = add_bytes(graph, name + "/zero", m.type(), zeros);
    return m;
}

}  // namespace

std::optional<QuantizedMatrix> quantized_matrix(Graph& graph, EdgePtr edge) {
    if (edge->value.shape.size() != 2) return std::nullopt;
    auto found = producer_info<kernel::DequantizeInfo>(edge) ? dequantized_matrix(graph, edge->producer())
                                                             : multiplied_matrix(graph, edge);
    if (!found || found->rows < 1 || found->columns < 1) return std::nullopt;
    return found;
}

EdgePtr in_bytes(Graph& graph, EdgePtr constant) {
    auto const& value = constant->value;
    if (bits_of(value.dtype) == 8) return constant;
    Dims dims;
    for (auto const& size : value.shape) dims.push_back(size.constant().value());
    auto from = value.dtype, to = byte_of(from);
    auto count = element_count(dims);
    return add_made(graph, value.name + "/bytes", to, dims, {value.constant},
                    [=](auto bytes, void* target) { convert(from, bytes[0], to, target, count); });
}

}  // namespace refactor::computation
