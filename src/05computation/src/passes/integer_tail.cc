#include "passes/integer_tail.h"

#include "kernel/ops/elementwise.h"
#include "passes/constants.h"
#include "passes/expression.h"

#include <algorithm>
#include <cmath>

namespace refactor::computation {

using kernel::ExprOp;
using I = kernel::IntegerMatMulInfo;

namespace {

double pick(std::vector<double> const& values, size_t i) {
    return values.empty() ? 0 : values.size() == 1 ? values[0] : values[i];
}

}  // namespace

/// The only instruction of an elementwise node besides inputs and constants.
struct IntegerTail::Single {
    Expression expression;
    kernel::ExprInstruction instruction;

    static std::optional<Single> of(NodePtr node) {
        if (!info_of<kernel::ElementwiseInfo>(*node->value.op) || node->outputs().size() != 1) return std::nullopt;
        Single single{Expression::of(node), {}};
        single.expression.normalize();
        int found = 0;
        for (auto const& instruction : single.expression.code)
            if (instruction.op != ExprOp::Input && instruction.op != ExprOp::Constant)
                single.instruction = instruction, ++found;
        if (found != 1 || single.instruction.dtype != DataType::F32) return std::nullopt;
        return single;
    }
    EdgePtr input(int i) const { return expression.input(instruction.operands[i]); }
    std::optional<double> constant(int i) const { return expression.constant(instruction.operands[i]); }
};

std::optional<std::vector<double>> IntegerTail::per_channel(EdgePtr edge) const {
    auto const& shape = edge->value.shape;
    auto rank = s_.output->value.shape.size();
    if (shape.size() > rank) return std::nullopt;
    for (size_t i = 0; i < shape.size(); ++i)
        if (!(shape[i] == DimExpr(1)) && (i + rank - shape.size() != axis_ || !(shape[i] == DimExpr(channels_))))
            return std::nullopt;
    return numbers_of(edge);
}

bool IntegerTail::take_slope(Single const& single) {
    auto slope = static_cast<double>(single.instruction.alpha);
    if (single.instruction.op != ExprOp::LeakyRelu || !(slope > 0 && slope < 1)) return false;
    if (!takes_slope_ || s_.slope != 1 || s_.clipped || s_.middle || s_.residual) return false;
    s_.slope = slope;
    return true;
}

bool IntegerTail::take_unary(NodePtr node) {
    auto single = Single::of(node);
    if (!single || single->input(0) != s_.output) return false;
    auto low = s_.low, high = s_.high;
    if (single->instruction.op == ExprOp::Relu) {
        low = std::max(low, 0.f);
    } else if (single->instruction.op == ExprOp::Clip && single->constant(1) && single->constant(2)) {
        low = std::max(low, static_cast<float>(*single->constant(1)));
        high = std::min(high, static_cast<float>(*single->constant(2)));
    } else {
        return take_slope(*single);
    }
    if (!(low <= high)) return false;
    s_.low = low, s_.high = high, s_.clipped = true;
    return true;
}

bool IntegerTail::take_factor(NodePtr node) {
    auto single = Single::of(node);
    if (!single || s_.clipped || s_.residual || scale_edge_) return false;
    auto op = single->instruction.op;
    if (op != ExprOp::Mul && op != ExprOp::Div) return false;
    int at = single->input(0) == s_.output ? 0 : 1;
    if (single->input(at) != s_.output || (at == 1 && op == ExprOp::Div)) return false;
    auto value = single->constant(1 - at);
    if (!value || *value == 0 || !std::isfinite(*value)) return false;
    auto factor = op == ExprOp::Mul ? *value : 1 / *value;
    if (s_.slope != 1 && factor < 0) return false;
    for (auto& x : s_.shift) x *= factor;
    if (s_.middle)
        s_.factor *= factor;
    else
        for (auto& x : s_.scale) x *= factor;
    return true;
}

bool IntegerTail::take_addend(NodePtr node) {
    auto single = Single::of(node);
    if (!single || single->instruction.op != ExprOp::Add || s_.clipped || s_.slope != 1) return false;
    int at = single->input(0) == s_.output ? 0 : 1;
    if (single->input(at) != s_.output || single->input(1 - at) == s_.output) return false;
    std::optional<std::vector<double>> values;
    if (auto value = single->constant(1 - at))
        values = std::vector<double>{*value};
    else if (auto* other = single->input(1 - at))
        values = per_channel(other);
    if (!values) return single->input(1 - at) && take_residual(single->input(1 - at));
    auto before = s_.shift;
    s_.shift.resize(std::max({before.size(), values->size(), size_t{1}}));
    for (size_t i = 0; i < s_.shift.size(); ++i) s_.shift[i] = pick(before, i) + pick(*values, i);
    return true;
}

bool IntegerTail::take_residual(EdgePtr other) {
    if (!takes_residual_ || s_.residual || other->value.shape != s_.output->value.shape || other->value.constant)
        return false;
    auto operand = dequantized(other);
    auto quantum = operand ? quantum_of(*operand) : std::nullopt;
    if (quantum)
        s_.residual = operand->data, s_.residual_scale = quantum->scale, s_.residual_zero = quantum->zero;
    else if (other->value.dtype == DataType::F32)
        s_.residual = other;
    return s_.residual != nullptr;
}

bool IntegerTail::take_quantize(NodePtr node) {
    auto quantum = quantizer(node);
    if (!quantum || s_.last || scale_edge_) return false;
    s_.last = quantum;
    return true;
}

/// What was the last quantisation becomes the one in the middle.
bool IntegerTail::take_dequantize(NodePtr node) {
    auto operand = dequantized(node->output());
    auto quantum = operand ? quantum_of(*operand) : std::nullopt;
    if (!quantum || s_.middle || s_.residual || s_.slope != 1 || quantum->zero != s_.last->zero) return false;
    s_.middle = s_.last, s_.last.reset();
    s_.before = std::move(s_.shift), s_.shift.clear();
    s_.before_low = std::max(s_.middle->low(), s_.low / s_.middle->scale);
    s_.before_high = std::min(s_.middle->high(), s_.high / s_.middle->scale);
    // Rounding keeps the order, so that bounds may be rounded instead.
    s_.before_low = std::nearbyint(std::min(s_.before_low, s_.middle->high()));
    s_.before_high = std::nearbyint(std::max(s_.before_high, s_.middle->low()));
    s_.factor = static_cast<double>(quantum->scale);
    s_.low = -std::numeric_limits<float>::infinity(), s_.high = -s_.low, s_.clipped = false;
    return true;
}

bool IntegerTail::step(NodePtr node) {
    if (s_.last) return info_of<kernel::DequantizeInfo>(*node->value.op) && take_dequantize(node);
    if (node->output()->value.shape != s_.output->value.shape) return false;
    return take_quantize(node) || take_unary(node) || take_addend(node) || take_factor(node);
}

void IntegerTail::follow() {
    auto best = s_;
    while (!s_.output->value.keep) {
        auto* node = s_.output->only_consumer();
        if (!node || node->outputs().size() != 1 || !step(node)) break;
        s_.output = node->output();
        // A lone Dequantize node is left to whoever reads it.
        if (!info_of<kernel::DequantizeInfo>(*node->value.op)) best = s_;
    }
    s_ = std::move(best);
}

kernel::IntegerResult IntegerTail::finish(Graph& graph, std::string const& name, std::vector<EdgePtr>& inputs) const {
    kernel::IntegerResult result;
    auto unit = s_.last ? static_cast<double>(s_.last->scale) : 1.;
    auto of_sum = s_.middle ? static_cast<double>(s_.middle->scale) : unit;
    std::vector<float> scale;
    for (auto x : s_.scale) scale.push_back(static_cast<float>(x / of_sum));
    inputs[I::kScale] = scale_edge_ ? scale_edge_ : add_numbers(graph, name + ".scale", scale);
    if (s_.last) inputs[I::kYZero] = add_scalar(graph, name + ".zero", s_.last->dtype, s_.last->zero);
    auto const& bias = s_.middle ? s_.before : s_.shift;
    // In units of a sum, where they are integers (or must be rounded: far below a quantum).
    auto count = static_cast<size_t>(channels_);
    std::vector<int32_t> integers;
    bool exact = true;
    for (size_t i = 0; i < count && !bias.empty(); ++i) {
        auto units = pick(bias, i) / pick(s_.scale, i);
        auto rounded = std::nearbyint(units);
        exact = exact && std::abs(units - rounded) < 0.01 && std::abs(rounded) < (1 << 30);
        integers.push_back(static_cast<int32_t>(std::clamp(rounded, -1073741824., 1073741824.)));
    }
    bool as_bias = !bias.empty() && !scale_edge_ && (s_.middle || exact);
    if (as_bias) inputs[I::kBias] = add_numbers(graph, name + ".bias", integers);
    auto const& shift = as_bias && !s_.middle ? std::vector<double>{} : s_.shift;
    if (!shift.empty()) {
        std::vector<float> values;
        for (size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(pick(shift, i) / unit));
        inputs[I::kShift] = add_numbers(graph, name + ".shift", values);
    }
    result.slope = static_cast<float>(s_.slope);
    result.low = static_cast<float>(s_.low / unit), result.high = static_cast<float>(s_.high / unit);
    // Numbers that are integers already are not rounded again.
    bool once = s_.middle && s_.last && !s_.residual && shift.empty() && s_.factor == unit;
    if (once) {
        result.low = std::max(result.low, s_.before_low), result.high = std::min(result.high, s_.before_high);
    } else if (s_.middle) {
        result.rounded = true, result.middle_low = s_.before_low, result.middle_high = s_.before_high;
        result.middle_scale = static_cast<float>(s_.factor / unit);
    }
    if (s_.residual) {
        inputs[I::kResidual] = s_.residual;
        result.residual_scale = static_cast<float>(static_cast<double>(s_.residual_scale) / unit);
        result.residual_zero = s_.residual_zero;
    }
    return result;
}

}  // namespace refactor::computation
