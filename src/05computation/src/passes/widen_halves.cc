#include "passes/widen_halves.h"

#include "passes/any_float.h"
#include "passes/expression.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace refactor::computation {

namespace {

using kernel::ExprOp;

bool is_half(DataType type) { return type == DataType::F16 || type == DataType::BF16; }
bool is_half(EdgePtr edge) { return edge && is_half(edge->value.dtype); }

bool is_widened_alone(Operator const& op) {
    static std::unordered_set<std::string_view> const kTypes = {
        "ArgReduce", "BlockMatMul", "CumSum", "GatherBlockMatMul", "GatherMatMul", "GridSample", "RoiAlign", "TopK"};
    return kTypes.contains(op.type());
}

class Widening {
    Model& model_;
    PassContext const& context_;
    bool rounds_;                                      ///< the result of each node
    std::unordered_map<EdgePtr, DataType> widened_{};  ///< edges that are f32 now, and what they were
    std::unordered_map<EdgePtr, EdgePtr> up_{}, down_{};
    std::unordered_set<EdgePtr> constant_{};  ///< computed of constants alone
    int changes_ = 0;

    bool is_widened(EdgePtr edge) const { return edge && widened_.contains(edge); }
    static bool is_fixed(EdgePtr edge) { return edge->value.keep || edge->is_output(); }

    EdgePtr cast(std::unordered_map<EdgePtr, EdgePtr>& known, EdgePtr edge, DataType type) {
        auto& made = known[edge];
        if (!made) made = insert_cast(model_.graph, edge, type), ++changes_;
        return made;
    }
    EdgePtr rounded(EdgePtr edge) { return cast(down_, edge, widened_.at(edge)); }
    EdgePtr wide(EdgePtr edge) {
        if (is_widened(edge)) return rounds_ ? cast(up_, rounded(edge), DataType::F32) : edge;
        return cast(up_, edge, DataType::F32);
    }

    void round_inputs(NodePtr node) {
        for (size_t i = 0; i < node->inputs().size(); ++i)
            if (auto* edge = node->input(i); is_widened(edge)) model_.graph.set_input(node, i, rounded(edge));
    }
    /// Who sees the output reads a cast behind it.
    void widen_output(EdgePtr edge) {
        auto value = edge->value;
        widened_.emplace(edge, value.dtype);
        edge->value.dtype = DataType::F32;
        if (!is_fixed(edge)) return;
        edge->value.name += "/f32", edge->value.keep = false;
        auto* narrow = rounded(edge);
        narrow->value = std::move(value);
        auto const& outputs = model_.graph.outputs();
        for (size_t i = 0; i < outputs.size(); ++i)
            if (outputs[i] == edge) model_.graph.set_output(i, narrow);
    }
    void widen(NodePtr node) {
        for (size_t i = 0; i < node->inputs().size(); ++i)
            if (auto* edge = node->input(i); is_half(edge) || is_widened(edge))
                model_.graph.set_input(node, i, wide(edge));
        for (auto* edge : node->outputs())
            if (is_half(edge)) widen_output(edge);
        ++changes_;
    }

    bool may_widen(NodePtr node) const {
        auto const& op = *node->value.op;
        auto const outputs = node->outputs();
        if (only_moves(op)) {
            bool comes_wide = std::any_of(node->inputs().begin(), node->inputs().end(),
                                          [&](EdgePtr edge) { return is_widened(edge); });
            if (rounds_ || !comes_wide || std::all_of(outputs.begin(), outputs.end(), is_fixed)) return false;
            if (op.is_alias()) return true;
        }
        return (takes_any_float(op) || is_widened_alone(op)) &&
               accepts_as(node, DataType::F32, [](EdgePtr edge) { return is_half(edge); }, context_, nullptr);
    }

    /// Registers of halves become f32; what the program reads and shows as halves is cast, constants once and for all.
    void widen_expression(NodePtr node) {
        auto expression = Expression::of(node);
        for (auto*& input : expression.inputs)
            if (is_half(input) && is_constant(input) && !scalar_constant(input)) input = wide(input);
        std::vector<kernel::ExprInstruction> code;
        std::vector<uint16_t> numbers;
        auto append = [&](kernel::ExprInstruction instruction) {
            code.push_back(instruction);
            return static_cast<uint16_t>(code.size() - 1);
        };
        for (auto instruction : expression.code) {
            bool reads = instruction.op == ExprOp::Input, half = is_half(instruction.dtype);
            if (!reads)
                for (int k = 0; k < kernel::arity_of(instruction.op); ++k)
                    instruction.operands[k] = numbers[instruction.operands[k]];
            auto* edge = reads ? expression.inputs[instruction.operands[0]] : nullptr;
            auto scalar = half && edge ? scalar_constant(edge) : std::nullopt;
            if (scalar) instruction = *scalar;
            bool stored_half = is_half(edge) && !scalar;
            if (half && !stored_half) instruction.dtype = DataType::F32;
            auto operand = instruction.operands[0];
            bool nothing = instruction.op == ExprOp::Cast && code[operand].dtype == instruction.dtype;
            auto number = nothing ? operand : append(instruction);
            if (stored_half) number = append({ExprOp::Cast, DataType::F32, {number}});
            numbers.push_back(number);
        }
        for (size_t i = 0; i < expression.outputs.size(); ++i) {
            auto& number = expression.outputs[i];
            number = numbers[number];
            auto* edge = node->output(i);
            if (!is_half(edge)) continue;
            if (is_fixed(edge))
                number = append({ExprOp::Cast, edge->value.dtype, {number}});
            else
                widened_.emplace(edge, edge->value.dtype), edge->value.dtype = DataType::F32;
        }
        expression.code = std::move(code);
        expression.store(model_.graph, node);
        ++changes_;
    }

    bool is_constant(EdgePtr edge) const { return !edge || edge->value.constant || constant_.contains(edge); }

    void visit(NodePtr node) {
        auto const inputs = node->inputs(), outputs = node->outputs();
        if (!inputs.empty() &&
            std::all_of(inputs.begin(), inputs.end(), [&](EdgePtr edge) { return is_constant(edge); })) {
            constant_.insert(outputs.begin(), outputs.end());
            return;
        }
        auto touches = [&](EdgePtr edge) { return is_half(edge) || is_widened(edge); };
        if (std::none_of(inputs.begin(), inputs.end(), touches) &&
            std::none_of(outputs.begin(), outputs.end(), touches))
            return;
        if (info_of<kernel::ElementwiseInfo>(*node->value.op))
            rounds_ ? round_inputs(node) : widen_expression(node);
        else
            may_widen(node) ? widen(node) : round_inputs(node);
    }

public:
    Widening(Model& model, PassContext const& context)
        : model_(model), context_(context), rounds_(context.options.precision == kernel::Precision::Exact) {}

    int run() {
        for (auto* node : model_.graph.topological()) visit(node);
        return changes_;
    }
};

}  // namespace

int widen_halves(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    return Widening(model, context).run();
}

}  // namespace refactor::computation
