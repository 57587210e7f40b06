#include "passes/expression.h"

#include "common/half.h"
#include "mem_manager/blob.h"

#include <algorithm>
#include <cstring>

namespace refactor::computation {

using kernel::ExprInstruction;
using kernel::ExprOp;

namespace {

bool same_constant(ExprInstruction const& a, ExprInstruction const& b) {
    return std::memcmp(&a.value, &b.value, sizeof a.value) == 0 && a.integer == b.integer;
}

bool same(ExprInstruction const& a, ExprInstruction const& b) {
    if (a.op != b.op || a.dtype != b.dtype) return false;
    if (a.op == ExprOp::Constant) return same_constant(a, b);
    if (a.op == ExprOp::Input) return a.operands[0] == b.operands[0];
    for (int i = 0; i < kernel::arity_of(a.op); ++i)
        if (a.operands[i] != b.operands[i]) return false;
    return a.alpha == b.alpha && a.beta == b.beta;
}

std::vector<bool> needed(Expression const& expression) {
    std::vector<bool> live(expression.code.size());
    for (auto output : expression.outputs) live[output] = true;
    for (size_t i = live.size(); i-- > 0;) {
        auto const& instruction = expression.code[i];
        if (!live[i] || instruction.op == ExprOp::Input) continue;
        for (int k = 0; k < kernel::arity_of(instruction.op); ++k) live[instruction.operands[k]] = true;
    }
    return live;
}

}  // namespace

Expression Expression::of(NodePtr node) {
    auto const* info = info_of<kernel::ElementwiseInfo>(*node->value.op);
    return {info->code, info->outputs, {node->inputs().begin(), node->inputs().end()}};
}

std::optional<ExprInstruction> scalar_constant(EdgePtr edge) {
    auto const& value = edge->value;
    if (!value.constant || element_count(value.shape).constant() != 1) return std::nullopt;
    auto dtype = value.dtype;
    if (!is_float(dtype) && !is_integer(dtype) && dtype != DataType::Bool) return std::nullopt;
    ExprInstruction instruction;
    instruction.op = ExprOp::Constant, instruction.dtype = dtype;
    if (!convert(dtype, value.constant->data(), DataType::F64, &instruction.value, 1)) return std::nullopt;
    if (!is_float(dtype) && !convert(dtype, value.constant->data(), DataType::I64, &instruction.integer, 1))
        return std::nullopt;
    return instruction;
}

void Expression::normalize() {
    for (auto& instruction : code)
        if (instruction.op == ExprOp::Input)
            if (auto scalar = scalar_constant(inputs[instruction.operands[0]])) instruction = *scalar;
    auto live = needed(*this);
    std::vector<ExprInstruction> fresh;
    std::vector<EdgePtr> edges;
    std::vector<uint16_t> moved(code.size());
    for (size_t i = 0; i < code.size(); ++i) {
        if (!live[i]) continue;
        auto instruction = code[i];
        if (instruction.op == ExprOp::Input) {
            auto* edge = inputs[instruction.operands[0]];
            auto at = std::find(edges.begin(), edges.end(), edge) - edges.begin();
            if (at == static_cast<ptrdiff_t>(edges.size())) edges.push_back(edge);
            instruction.operands[0] = static_cast<uint16_t>(at);
        } else {
            for (int k = 0; k < kernel::arity_of(instruction.op); ++k)
                instruction.operands[k] = moved[instruction.operands[k]];
        }
        auto found =
            std::find_if(fresh.begin(), fresh.end(), [&](auto const& other) { return same(other, instruction); });
        moved[i] = static_cast<uint16_t>(found - fresh.begin());
        if (found == fresh.end()) fresh.push_back(instruction);
    }
    for (auto& output : outputs) output = moved[output];
    code = std::move(fresh), inputs = std::move(edges);
}

std::vector<uint32_t> Expression::use_counts() const {
    std::vector<uint32_t> counts(code.size());
    for (auto const& instruction : code)
        if (instruction.op != ExprOp::Input)
            for (int k = 0; k < kernel::arity_of(instruction.op); ++k) ++counts[instruction.operands[k]];
    for (auto output : outputs) ++counts[output];
    return counts;
}

uint16_t Expression::append(ExprInstruction instruction) {
    code.push_back(instruction);
    return static_cast<uint16_t>(code.size() - 1);
}

std::optional<double> Expression::constant(uint16_t i) const {
    if (code[i].op != ExprOp::Constant) return std::nullopt;
    return is_float(code[i].dtype) ? code[i].value : static_cast<double>(code[i].integer);
}

EdgePtr Expression::input(uint16_t i) const {
    return code[i].op == ExprOp::Input ? inputs[code[i].operands[0]] : nullptr;
}

void Expression::store(Graph& graph, NodePtr node) const {
    node->value.op = make_operator(kernel::ElementwiseInfo{code, outputs});
    while (node->inputs().size() > inputs.size()) graph.remove_input(node, node->inputs().size() - 1);
    for (size_t i = 0; i < inputs.size(); ++i) {
        if (i < node->inputs().size())
            graph.set_input(node, i, inputs[i]);
        else
            graph.push_input(node, inputs[i]);
    }
}

Expression merge(NodePtr producer, NodePtr consumer) {
    auto first = Expression::of(producer);
    auto const second = Expression::of(consumer);
    auto input_shift = static_cast<uint16_t>(first.inputs.size());
    std::vector<uint16_t> moved(second.code.size());
    for (size_t i = 0; i < second.code.size(); ++i) {
        auto instruction = second.code[i];
        moved[i] = static_cast<uint16_t>(first.code.size());
        if (instruction.op == ExprOp::Input) {
            auto* edge = second.inputs[instruction.operands[0]];
            if (edge->producer() == producer) {
                moved[i] = first.outputs[edge->slot()];
                continue;
            }
            instruction.operands[0] = static_cast<uint16_t>(instruction.operands[0] + input_shift);
        } else {
            for (int k = 0; k < kernel::arity_of(instruction.op); ++k)
                instruction.operands[k] = moved[instruction.operands[k]];
        }
        first.code.push_back(instruction);
    }
    first.inputs.insert(first.inputs.end(), second.inputs.begin(), second.inputs.end());
    first.outputs.clear();
    for (auto output : second.outputs) first.outputs.push_back(moved[output]);
    first.normalize();
    return first;
}

Expression make_expression(ExprOp op, DataType dtype, std::initializer_list<EdgePtr> inputs) {
    Expression expression;
    ExprInstruction instruction;
    instruction.op = op, instruction.dtype = dtype;
    uint16_t i = 0;
    for (auto* edge : inputs) {
        ExprInstruction load;
        load.op = ExprOp::Input, load.dtype = edge->value.dtype, load.operands[0] = i;
        instruction.operands[i++] = expression.append(load);
        expression.inputs.push_back(edge);
    }
    expression.outputs = {expression.append(instruction)};
    return expression;
}

}  // namespace refactor::computation
