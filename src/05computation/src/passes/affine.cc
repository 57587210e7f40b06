#include "passes/affine.h"

#include "passes/constants.h"
#include "passes/expression.h"

#include <algorithm>

namespace refactor::computation {

using kernel::ExprOp;

namespace {

template <class F>
std::vector<double> zip(std::vector<double> const& p, std::vector<double> const& q, F f) {
    std::vector<double> result(std::max(p.size(), q.size()));
    for (size_t i = 0; i < result.size(); ++i) result[i] = f(pick(p, i), pick(q, i));
    return result;
}

std::optional<Affine> combine(ExprOp op, Affine const& p, Affine const& q) {
    auto add = [](double x, double y) { return x + y; };
    auto subtract = [](double x, double y) { return x - y; };
    auto multiply = [](double x, double y) { return x * y; };
    auto divide = [](double x, double y) { return x / y; };
    switch (op) {
        case ExprOp::Add:
            return Affine{p.variable || q.variable, zip(p.a, q.a, add), zip(p.b, q.b, add)};
        case ExprOp::Sub:
            return Affine{p.variable || q.variable, zip(p.a, q.a, subtract), zip(p.b, q.b, subtract)};
        case ExprOp::Mul:
            if (p.variable && q.variable) return std::nullopt;
            if (q.variable) return combine(op, q, p);
            return Affine{p.variable, zip(p.a, q.b, multiply), zip(p.b, q.b, multiply)};
        case ExprOp::Div:
            if (q.variable) return std::nullopt;
            return Affine{p.variable, zip(p.a, q.b, divide), zip(p.b, q.b, divide)};
        default:
            return std::nullopt;
    }
}

/// The values of a constant that varies along `axis` (counted in an output of `rank` axes) at most.
std::optional<std::vector<double>> channel_values(EdgePtr edge, size_t rank, size_t axis, int64_t channels) {
    auto const& value = edge->value;
    if (!value.constant || !is_float(value.dtype) || value.shape.size() > rank) return std::nullopt;
    auto offset = rank - value.shape.size();
    for (size_t i = 0; i < value.shape.size(); ++i) {
        auto size = value.shape[i].constant();
        if (!size || (*size != 1 && (i + offset != axis || *size != channels))) return std::nullopt;
    }
    return numbers_of(edge);
}

}  // namespace

std::optional<Affine> affine_of(NodePtr node, EdgePtr x, size_t axis, int64_t channels) {
    auto expression = Expression::of(node);
    auto rank = node->output()->value.shape.size();
    std::vector<Affine> registers;
    for (auto const& instruction : expression.code) {
        auto type = x->value.dtype;
        bool half = type == DataType::F16 || type == DataType::BF16;
        if (instruction.dtype != type && !(half && instruction.dtype == DataType::F32)) return std::nullopt;
        std::optional<Affine> result;
        if (instruction.op == ExprOp::Constant) {
            result = Affine{false, {0}, {instruction.value}};
        } else if (instruction.op == ExprOp::Input) {
            auto* edge = expression.inputs[instruction.operands[0]];
            if (edge == x)
                result = Affine{true, {1}, {0}};
            else if (auto values = channel_values(edge, rank, axis, channels))
                result = Affine{false, {0}, std::move(*values)};
        } else if (instruction.op == ExprOp::Fma) {
            auto product = combine(ExprOp::Mul, registers[instruction.operands[0]], registers[instruction.operands[1]]);
            if (product) result = combine(ExprOp::Add, *product, registers[instruction.operands[2]]);
        } else if (instruction.op == ExprOp::Cast) {
            result = registers[instruction.operands[0]];
        } else if (instruction.op == ExprOp::Neg) {
            result = combine(ExprOp::Mul, registers[instruction.operands[0]], Affine{false, {0}, {-1}});
        } else if (kernel::arity_of(instruction.op) == 2) {
            result = combine(instruction.op, registers[instruction.operands[0]], registers[instruction.operands[1]]);
        }
        if (!result) return std::nullopt;
        registers.push_back(std::move(*result));
    }
    if (expression.outputs.size() != 1 || !registers[expression.outputs[0]].variable) return std::nullopt;
    return std::move(registers[expression.outputs[0]]);
}

}  // namespace refactor::computation
