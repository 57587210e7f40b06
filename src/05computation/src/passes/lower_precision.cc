#include "passes/lower_precision.h"

#include "ask_kernels.h"
#include "common/half.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "made_constants.h"
#include "mem_manager/device.h"
#include "passes/any_float.h"
#include "passes/expression.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace refactor::computation {

namespace {

using kernel::ExprOp;

class Lowering {
    Model& model_;
    PassContext const& context_;
    DataType type_;
    mem_manager::Device* place_;
    std::set<NodePtr> kept_;
    std::map<std::pair<EdgePtr, DataType>, EdgePtr> casts_;
    std::set<EdgePtr> lowered_;     ///< edges that were f32
    std::set<EdgePtr> statistics_;  ///< sums, and what has one element for each of them
    std::map<std::string, int> refused_;
    int changes_ = 0;

    static bool is_f32(EdgePtr edge) { return edge && edge->value.dtype == DataType::F32; }
    bool is_low(EdgePtr edge) const { return edge && edge->value.dtype == type_; }

    /// Whether an input of the node has scales of weights, or what belongs to them: f32 whatever is multiplied.
    static bool is_scales(NodePtr node, size_t input) {
        if (info_of<kernel::BlockMatMulInfo>(*node->value.op)) return input != kernel::BlockMatMulInfo::kA;
        auto const* product = info_of<kernel::MatMulInfo>(*node->value.op);
        return product && product->scaled && input == 2;
    }
    static bool is_scales(NodePtr node, EdgePtr edge) {
        for (size_t i = 0; i < node->inputs().size(); ++i)
            if (node->input(i) == edge && is_scales(node, i)) return true;
        return false;
    }
    /// Whether users see the tensor.
    bool is_fixed(EdgePtr edge) const { return edge->value.keep || edge->is_output(); }

    EdgePtr converted_constant(EdgePtr edge) {
        auto const& value = edge->value;
        auto count = element_count(value.shape).constant().value_or(0);
        auto round = [count, type = type_](std::span<void const* const> from, void* to) {
            convert(DataType::F32, from[0], type, to, count);
        };
        auto fresh = value;
        fresh.name += "/" + std::string(name_of(type_)),
            fresh.dtype = type_, fresh.constant = make_constant(storage_bytes(type_, count), {value.constant}, round);
        return model_.graph.add_source(std::move(fresh));
    }

    EdgePtr cast(EdgePtr edge, DataType to) {
        auto& known = casts_[{edge, to}];
        if (known) return known;
        if (edge->value.constant && to == type_) return known = converted_constant(edge);
        ++changes_;
        return known = insert_cast(model_.graph, edge, to);
    }

    /// Gives the node its inputs in f32 again.
    void raise_inputs(NodePtr node) {
        for (size_t i = 0; i < node->inputs().size(); ++i)
            if (auto* edge = node->input(i); is_low(edge) && lowered_.contains(edge))
                model_.graph.set_input(node, i, cast(edge, DataType::F32));
    }
    /// The output becomes of the low type; who sees it gets a cast behind it.
    void lower_output(EdgePtr edge) {
        auto value = edge->value;
        edge->value.dtype = type_;
        lowered_.insert(edge);
        if (!is_fixed(edge)) return;
        edge->value.name += "/" + std::string(name_of(type_)), edge->value.keep = false;
        auto* wide = cast(edge, DataType::F32);
        wide->value = std::move(value);
        auto const& outputs = model_.graph.outputs();
        for (size_t i = 0; i < outputs.size(); ++i)
            if (outputs[i] == edge) model_.graph.set_output(i, wide);
    }

    bool accepts(NodePtr node) const {
        return accepts_as(
            node, type_, [&](EdgePtr edge) { return is_f32(edge) && !is_scales(node, edge); }, context_, place_);
    }

    /// Whether a kernel writes the only output of the node once in each of these types.
    bool accepts_outputs(NodePtr node, std::vector<DataType> const& types) {
        std::vector<EdgePtr> const inputs(node->inputs().begin(), node->inputs().end());
        auto* probe = model_.graph.insert(node->value, inputs, types.size());
        for (size_t i = 0; i < types.size(); ++i)
            probe->output(i)->value = node->output()->value, probe->output(i)->value.dtype = types[i];
        bool accepted = !ask_kernels(probe, context_, place_ ? context_.options.device : "cpu", place_).kernels.empty();
        model_.graph.erase(probe);
        return accepted;
    }

    /// Whether the node moves what it reads into an f32 tensor, and one that converts on the way saves casts.
    bool moves_and_casts(NodePtr node) const {
        auto* y = node->output();
        if (!is_f32(y)) return false;
        if (info_of<kernel::TransposeInfo>(*node->value.op)) return is_low(node->input(0)) && is_fixed(y);
        if (!info_of<kernel::ConcatInfo>(*node->value.op)) return false;
        auto inputs = node->inputs();
        return is_fixed(y) || std::any_of(inputs.begin(), inputs.end(), [&](EdgePtr x) {
                   return is_f32(x) && !x->value.constant && !casts_.contains({x, type_});
               });
    }

    /// Moves what is f32 or low without casts in front, and, if users see the result, also in f32: keys and values for
    /// later, and caches of them, are read and written as the model has them. False, and nothing changed, if no kernel
    /// does that.
    bool lower_movement(NodePtr node) {
        if (!moves_and_casts(node)) return false;
        auto* y = node->output();
        bool both = is_fixed(y) && !y->consumers().empty(), narrow = both || !is_fixed(y);
        std::vector<DataType> types;
        if (narrow) types.push_back(type_);
        if (is_fixed(y)) types.push_back(DataType::F32);
        if (!accepts_outputs(node, types)) return false;
        auto value = y->value;
        if (narrow) y->value.dtype = type_, lowered_.insert(y);
        if (both) {
            auto* seen = model_.graph.push_output(node, std::move(value));
            y->value.name += "/" + std::string(name_of(type_)), y->value.keep = false;
            auto const& outputs = model_.graph.outputs();
            for (size_t i = 0; i < outputs.size(); ++i)
                if (outputs[i] == y) model_.graph.set_output(i, seen);
        }
        ++changes_;
        return true;
    }

    /// Whether the node adds up so much that f16 overflows, or that what is computed of it, as a variance by the mean
    /// of squares, cancels.
    static bool is_sum(NodePtr node) {
        using kernel::ReduceKind;
        auto const* info = info_of<kernel::ReduceInfo>(*node->value.op);
        return info && (info->kind == ReduceKind::Sum || info->kind == ReduceKind::SumSquare ||
                        info->kind == ReduceKind::L1 || info->kind == ReduceKind::L2 || info->kind == ReduceKind::Prod);
    }
    static bool feeds_sums_only(EdgePtr edge) {
        auto const& consumers = edge->consumers();
        return !consumers.empty() &&
               std::all_of(consumers.begin(), consumers.end(), [](auto const& use) { return is_sum(use.node); });
    }
    /// Whether an input is a statistic, and the output has no more elements than that.
    bool makes_statistics(NodePtr node) const {
        auto inputs = node->inputs();
        return std::any_of(inputs.begin(), inputs.end(), [&](EdgePtr x) {
            return statistics_.contains(x) &&
                   element_count(x->value.shape) == element_count(node->output()->value.shape);
        });
    }
    /// Sums, and the few elements that are computed of them, stay f32.
    bool stays_wide(NodePtr node) {
        if (node->outputs().size() != 1) return false;
        bool derived = info_of<kernel::ElementwiseInfo>(*node->value.op) || node->value.op->is_alias();
        if (!is_sum(node) && !(derived && makes_statistics(node))) return false;
        if (is_f32(node->output())) statistics_.insert(node->output());
        return true;
    }

    /// Whether it reads its operand once, which nobody has cast: a cast would read as much as it saves.
    bool gains_nothing(NodePtr node) const {
        static std::set<std::string_view> const kOnePass = {"GlobalPool", "GroupNorm", "LayerNorm",
                                                            "Lrn",        "Reduce",    "Softmax"};
        if (!kOnePass.contains(node->value.op->type())) return false;
        auto inputs = node->inputs();
        return std::none_of(inputs.begin(), inputs.end(), [&](EdgePtr x) {
            return is_low(x) || (x && casts_.contains({x, type_}) && !x->value.constant);
        });
    }

    void lower_node(NodePtr node) {
        if (gains_nothing(node)) return;
        bool mixed = std::none_of(node->outputs().begin(), node->outputs().end(), is_f32);
        if (node->value.op->is_alias() ? !is_low(node->input(0)) || is_fixed(node->output())
                                       : mixed || !accepts(node)) {
            if (!mixed && !node->value.op->is_alias()) ++refused_[std::string(node->value.op->type())];
            return raise_inputs(node);
        }
        for (size_t i = 0; i < node->inputs().size(); ++i)
            if (auto* edge = node->input(i); is_f32(edge) && !is_scales(node, i))
                model_.graph.set_input(node, i, cast(edge, type_));
        for (auto* edge : node->outputs())
            if (is_f32(edge)) lower_output(edge);
        ++changes_;
    }

    /// The program reads low operands and, if `store`, writes low results; in between nothing changes.
    void lower_expression(NodePtr node, bool store) {
        auto expression = Expression::of(node);
        std::vector<kernel::ExprInstruction> code;
        std::vector<uint16_t> numbers;
        bool changed = false;
        for (auto instruction : expression.code) {
            bool is_input = instruction.op == ExprOp::Input;
            if (!is_input)
                for (int k = 0; k < kernel::arity_of(instruction.op); ++k)
                    instruction.operands[k] = numbers[instruction.operands[k]];
            bool widen =
                is_input && instruction.dtype == DataType::F32 && is_low(expression.inputs[instruction.operands[0]]);
            if (widen) instruction.dtype = type_;
            code.push_back(instruction);
            if (widen)
                code.push_back({ExprOp::Cast, DataType::F32, {static_cast<uint16_t>(code.size() - 1)}}), changed = true;
            numbers.push_back(static_cast<uint16_t>(code.size() - 1));
        }
        for (size_t i = 0; i < expression.outputs.size(); ++i) {
            auto& number = expression.outputs[i];
            number = numbers[number];
            auto* edge = node->output(i);
            if (!store || !is_f32(edge) || is_fixed(edge) || feeds_sums_only(edge)) continue;
            code.push_back({ExprOp::Cast, type_, {number}});
            number = static_cast<uint16_t>(code.size() - 1);
            lower_output(edge), changed = true;
        }
        if (!changed) return;
        expression.code = std::move(code);
        expression.store(model_.graph, node);
        ++changes_;
    }

public:
    Lowering(Model& model, PassContext const& context)
        : model_(model),
          context_(context),
          type_(context.options.compute),
          place_(context.options.device == "cpu" ? nullptr : &mem_manager::find_device(context.options.device, 0)) {
        std::vector<std::string> unknown;
        kept_ = nodes_kept_in_f32(model_, context_, &unknown);
        for (auto const& name : unknown) context_.note("keep_f32: no node of this program is named \"" + name + '"');
    }

    int run() {
        for (auto* node : model_.graph.topological()) {
            bool kept = kept_.contains(node) || stays_wide(node);
            if (info_of<kernel::ElementwiseInfo>(*node->value.op))
                lower_expression(node, !kept);
            else if (!kept && lower_movement(node))
                continue;
            else if (!kept && takes_any_float(*node->value.op))
                lower_node(node);
            else
                raise_inputs(node);
        }
        for (auto const& [type, count] : refused_)
            context_.note(std::to_string(count) + ' ' + type + " node(s) stay f32: no kernel takes " +
                          std::string(name_of(type_)));
        return changes_;
    }
};

}  // namespace

std::set<NodePtr> nodes_kept_in_f32(Model& model, PassContext const& context, std::vector<std::string>* unknown) {
    std::set<NodePtr> kept;
    if (!context.keep_f32 || context.keep_f32->empty()) return kept;
    std::unordered_map<std::string, NodePtr> makers;
    for (auto* node : model.graph.topological())
        for (auto* edge : node->outputs()) makers.emplace(edge->value.name, node);
    for (auto const& [name, behind] : *context.keep_f32) {
        auto found =
            std::find_if(behind.begin(), behind.end(), [&](auto const& edge) { return makers.contains(edge); });
        if (found == behind.end()) {
            if (unknown) unknown->push_back(name);
            continue;
        }
        auto* maker = makers[*found];
        kept.insert(maker);
        // A pass may have put a Reshape of that name behind the node.
        while (maker->value.op->is_alias() && maker->input(0)->producer() &&
               maker->input(0)->producer()->value.name == name)
            kept.insert(maker = maker->input(0)->producer());
    }
    return kept;
}

int lower_precision(Model& model, PassContext const& context) {
    if (context.options.compute == DataType::Undefined || context.options.device == "cpu") return 0;
    return Lowering(model, context).run();
}

}  // namespace refactor::computation
