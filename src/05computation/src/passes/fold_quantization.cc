#include "passes/fold_quantization.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "passes/constants.h"
#include "passes/fold_constants.h"
#include "passes/integer_tail.h"
#include "passes/transposed_phases.h"

#include <array>
#include <cmath>

namespace refactor::computation {

using I = kernel::IntegerMatMulInfo;

namespace {

/// Empty: it was folded.
using Reason = std::string;

class Folding {
    Graph& graph_;

    static Reason why_not_activation(EdgePtr edge, std::optional<QuantizedOperand>& operand,
                                     std::optional<Quantum>& quantum) {
        operand = dequantized(edge);
        if (!operand) return "\"" + edge->value.name + "\" is not dequantised from u8 or i8 with a constant scale";
        quantum = quantum_of(*operand);
        if (!quantum) return "\"" + edge->value.name + "\" has more than one scale or zero point";
        return {};
    }

    /// Scales of weights with one for each index of `axis`, or one for all.
    static Reason weight_scales(QuantizedOperand const& w, size_t axis, int64_t channels, std::vector<double>& scales) {
        auto values = numbers_of(w.scale), zeros = w.zero ? numbers_of(w.zero) : std::vector<double>{0};
        auto name = "\"" + w.data->value.name + "\"";
        if (!values || !zeros || w.granularity.block) return name + " has scales in blocks";
        bool many = values->size() > 1 || zeros->size() > 1;
        auto fits = [&](auto const& numbers) {
            return numbers->size() == 1 || static_cast<int64_t>(numbers->size()) == channels;
        };
        if (many && (w.granularity.axis != static_cast<int64_t>(axis) || !fits(values) || !fits(zeros)))
            return name + " has scales along axis " + std::to_string(w.granularity.axis) + ", expected " +
                   std::to_string(axis);
        for (auto value : *values)
            if (!(value > 0) || !std::isfinite(value)) return name + " has a scale that is not positive";
        scales = std::move(*values);
        return {};
    }

    /// The integer node that computes `tail.output()`.
    template <class Info>
    void replace(NodePtr node, Info info, std::vector<EdgePtr> inputs, IntegerTail& tail) {
        tail.follow();
        info.result = tail.finish(graph_, node->value.name, inputs);
        auto params = node->value.op->params();
        auto* old = tail.output()->producer();
        graph_.insert_producing({node->value.name, make_operator(std::move(info), {params.begin(), params.end()})},
                                inputs, std::array{tail.output()});
        if (old->alive()) graph_.erase_unused(old);
        if (node->alive() && node->output()->use_count() == 0) graph_.erase_unused(node);
    }

    /// Bias of a Conv or Gemm as numbers.
    static Reason bias_of(NodePtr node, bool has, std::vector<double>& values) {
        if (!has) return {};
        auto* bias = node->input(2);
        auto numbers = numbers_of(bias);
        if (!numbers) {
            // A vector of i32 whose node has not been computed yet.
            auto const* info = producer_info<kernel::DequantizeInfo>(bias);
            auto* dequantize = bias->producer();
            auto data = info ? numbers_of(dequantize->input(0)) : std::nullopt;
            auto scale = info ? numbers_of(dequantize->input(1)) : std::nullopt;
            auto zero = info && dequantize->input(2) ? numbers_of(dequantize->input(2)) : std::vector<double>{0};
            if (!data || !scale || !zero || info->granularity.block) return "the bias is no constant";
            for (size_t i = 0; i < data->size(); ++i)
                (*data)[i] = ((*data)[i] - (*zero)[zero->size() > 1 ? i : 0]) * (*scale)[scale->size() > 1 ? i : 0];
            numbers = std::move(data);
        }
        values = std::move(*numbers);
        return {};
    }

    /// [rows, columns] bytes the other way round.
    EdgePtr transposed(EdgePtr edge) {
        auto rank = static_cast<int64_t>(edge->value.shape.size());
        kernel::TransposeInfo info;
        for (int64_t i = 0; i < rank; ++i) info.perm.push_back(i < rank - 2 ? i : 2 * rank - 3 - i);
        auto* node = graph_.insert({edge->value.name + "/transpose", make_operator(info)}, {edge});
        auto shape = edge->value.shape;
        std::swap(shape[static_cast<size_t>(rank - 1)], shape[static_cast<size_t>(rank - 2)]);
        node->output()->value = {edge->value.name + "/transposed", edge->value.dtype, shape, {}, nullptr, false};
        return node->output();
    }

    /// The operand that `node` multiplies `x` by, if it does nothing else.
    static EdgePtr factor_of(NodePtr node, EdgePtr x) {
        auto const* info = node ? info_of<kernel::ElementwiseInfo>(*node->value.op) : nullptr;
        if (!info || info->code.size() != 3 || node->inputs().size() != 2 || node->outputs().size() != 1)
            return nullptr;
        auto const& product = info->code[2];
        if (product.op != kernel::ExprOp::Mul || product.dtype != DataType::F32 || info->outputs[0] != 2)
            return nullptr;
        auto* other = node->input(node->input(0) == x ? 1 : 0);
        return other != x && other->value.dtype == DataType::F32 ? other : nullptr;
    }
    static bool casts_sums(NodePtr node) {
        auto const* info = node ? info_of<kernel::ElementwiseInfo>(*node->value.op) : nullptr;
        return info && info->code.size() == 2 && info->outputs.size() == 1 && info->outputs[0] == 1 &&
               info->code[1].op == kernel::ExprOp::Cast && info->code[1].dtype == DataType::F32;
    }
    /// One number, or one for each channel.
    static bool fits_channels(EdgePtr edge, size_t rank, size_t axis, DimExpr const& channels) {
        auto const& shape = edge->value.shape;
        if (element_count(shape) == DimExpr(1)) return shape.size() <= rank;
        if (shape.size() > rank) return false;
        for (size_t i = 0; i < shape.size(); ++i)
            if (!(shape[i] == (i + rank - shape.size() == axis ? channels : DimExpr(1)))) return false;
        return rank - shape.size() <= axis;
    }

public:
    explicit Folding(Graph& graph) : graph_(graph) {}

    /// Sums of i32 whose only use is to be multiplied as f32.
    template <class Info>
    bool fold_sums(NodePtr node, Info const& info, size_t axis) {
        auto* sums = node->output();
        if (sums->value.dtype != DataType::I32 || node->input(I::kScale) || sums->value.keep) return false;
        auto* cast = sums->only_consumer();
        if (!casts_sums(cast) || cast->output()->value.keep) return false;
        auto* multiply = cast->output()->only_consumer();
        auto* scale = factor_of(multiply, cast->output());
        auto const& shape = sums->value.shape;
        if (!scale || multiply->output()->value.shape != shape ||
            !fits_channels(scale, shape.size(), axis, shape[axis]))
            return false;
        IntegerTail tail(axis, shape[axis].constant().value_or(-1), multiply->output(), scale);
        replace(node, Info(info), {node->inputs().begin(), node->inputs().end()}, tail);
        return true;
    }

    /// Bytes that are only dequantised, as QLinearConv makes them: what follows may be done before they are stored.
    template <class Info>
    bool fold_bytes(NodePtr node, Info const& info, size_t axis) {
        auto* y = node->output();
        if (!(info.result == kernel::IntegerResult{}) || node->input(I::kShift) || node->input(I::kResidual) ||
            y->value.keep || y->is_output())
            return false;
        auto channels = y->value.shape[axis].constant();
        auto* next = y->only_consumer();
        auto operand = next && next->outputs().size() == 1 ? dequantized(next->output()) : std::nullopt;
        auto quantum = operand && operand->data == y ? quantum_of(*operand) : std::nullopt;
        if (!quantum || !channels || !node->input(I::kScale)) return false;
        if (auto* maker = node->input(I::kScale)->producer()) fold_constant(graph_, maker);
        auto constant = [&](size_t i) { return node->input(i) ? numbers_of(node->input(i)) : std::vector<double>{0}; };
        auto scale = constant(I::kScale), bias = constant(I::kBias), zero = constant(I::kYZero);
        if (!scale || !bias || !zero || zero->size() != 1 || (*zero)[0] != quantum->zero) return false;
        for (auto& value : *scale) {
            value *= static_cast<double>(quantum->scale);
            if (!(value > 0) || !std::isfinite(value)) return false;
        }
        std::vector<double> shift;
        for (size_t i = 0; node->input(I::kBias) && i < bias->size(); ++i)
            shift.push_back((*bias)[i] * (*scale)[scale->size() > 1 ? i : 0]);
        IntegerTail tail(axis, *channels, y, std::move(*scale), std::move(shift), *quantum);
        tail.follow();
        if (tail.output() == y) return false;
        std::vector<EdgePtr> inputs{node->inputs().begin(), node->inputs().end()};
        inputs[I::kBias] = inputs[I::kScale] = inputs[I::kYZero] = nullptr;
        replace(node, Info(info), std::move(inputs), tail);
        return true;
    }

    Reason fold_conv(NodePtr node, kernel::ConvInfo const& conv) {
        std::optional<QuantizedOperand> x;
        std::optional<Quantum> x_quantum;
        if (auto why = why_not_activation(node->input(0), x, x_quantum); !why.empty()) return why;
        auto w = dequantized_weights(graph_, node->input(1));
        if (!w) return "the weights are not dequantised from u8 or i8";
        auto rank = node->output()->value.shape.size();
        auto channels = w->data->value.shape[0].constant();
        if (!channels || rank < 3 || rank > 5) return "the number of channels or axes is not known";
        if (conv.epilogue.residual || conv.epilogue.activation.kind != kernel::ActivationKind::None)
            return "it has been fused already";
        std::vector<double> scales, bias;
        if (auto why = weight_scales(*w, 0, *channels, scales); !why.empty()) return why;
        if (auto why = bias_of(node, conv.epilogue.bias, bias); !why.empty()) return why;
        for (auto& scale : scales) scale *= static_cast<double>(x_quantum->scale);
        kernel::IntegerConvInfo info{conv.window, conv.group, {}};
        std::vector<EdgePtr> inputs{x->data, w->data, x->zero, w->zero};
        inputs.resize(I::kInputs);
        IntegerTail tail(1, *channels, node->output(), std::move(scales), std::move(bias));
        // Loops for depthwise ones know no slopes.
        if (conv.group == *channels) tail.refuse_slope();
        replace(node, std::move(info), std::move(inputs), tail);
        return {};
    }

    /// The same constants for the phases of each channel.
    void spread_constants(TransposedPhases const& phases, std::vector<EdgePtr>& inputs) {
        for (auto i : {I::kBias, I::kScale, I::kShift}) {
            if (!inputs[i]) continue;
            auto numbers = phases.of_channels(*numbers_of(inputs[i]));
            auto name = inputs[i]->value.name;
            if (i == I::kBias)
                inputs[i] = add_numbers(graph_, name, std::vector<int32_t>(numbers.begin(), numbers.end()));
            else
                inputs[i] = add_numbers(graph_, name, std::vector<float>(numbers.begin(), numbers.end()));
        }
    }

    /// Sums, and what follows them, of all phases; then the bytes are moved.
    Reason fold_transposed(NodePtr node, kernel::ConvTransposeInfo const& conv) {
        std::optional<QuantizedOperand> x;
        std::optional<Quantum> x_quantum;
        if (auto why = why_not_activation(node->input(0), x, x_quantum); !why.empty()) return why;
        auto w = dequantized_weights(graph_, node->input(1));
        if (!w || !w->data->value.constant) return "the weights are not dequantised from constants of u8 or i8";
        if (conv.epilogue.residual || conv.epilogue.activation.kind != kernel::ActivationKind::None)
            return "it has been fused already";
        TransposedPhases phases;
        if (auto why = phases.init(node, conv); !why.empty()) return why;
        std::vector<double> scales, bias;
        if (auto why = weight_scales(*w, 1, phases.channels_of_group(), scales); !why.empty()) return why;
        if (auto why = bias_of(node, conv.epilogue.bias, bias); !why.empty()) return why;
        for (auto& scale : scales) scale *= static_cast<double>(x_quantum->scale);
        while (scales.size() > 1 && static_cast<int64_t>(scales.size()) < phases.channels())
            scales.push_back(scales[scales.size() - static_cast<size_t>(phases.channels_of_group())]);
        auto zeros = w->zero ? *numbers_of(w->zero) : std::vector<double>{0};
        std::vector<EdgePtr> inputs{phases.channels_last(graph_, x->data), phases.weights(graph_, w->data, zeros),
                                    x->zero, nullptr};
        if (w->zero)
            inputs[I::kBZero] =
                add_bytes(graph_, node->value.name + ".w_zero", w->data->value.dtype, phases.of_channels(zeros));
        inputs.resize(I::kInputs);
        IntegerTail tail(1, phases.channels(), node->output(), std::move(scales), std::move(bias));
        tail.refuse_residual();
        tail.follow();
        kernel::IntegerConvInfo info{phases.window(), phases.group(), {}, true};
        info.result = tail.finish(graph_, node->value.name, inputs);
        spread_constants(phases, inputs);
        auto* y = tail.output();
        auto* old = y->producer();
        auto* made = graph_.insert({node->value.name, make_operator(std::move(info))}, inputs);
        made->output()->value = {
            y->value.name + "/phases", y->value.dtype, phases.shape(y->value.shape[0]), {}, nullptr, false};
        phases.spread(graph_, made->output(), y);
        if (old->alive()) graph_.erase_unused(old);
        if (node->alive() && node->output()->use_count() == 0) graph_.erase_unused(node);
        return {};
    }

    Reason fold_product(NodePtr node, kernel::MatMulInfo const& product) {
        std::optional<QuantizedOperand> a;
        std::optional<Quantum> a_quantum;
        if (auto why = why_not_activation(node->input(0), a, a_quantum); !why.empty()) return why;
        auto b = dequantized_weights(graph_, node->input(1));
        if (!b) return "\"" + node->input(1)->value.name + "\" is not dequantised from u8 or i8 with a constant scale";
        if (product.epilogue.residual || product.epilogue.activation.kind != kernel::ActivationKind::None)
            return "it has been fused already";
        auto b_rank = b->data->value.shape.size(), rank = node->output()->value.shape.size();
        auto axis = b_rank - (product.trans_b ? 2 : 1);
        auto columns = node->output()->value.shape.back().constant();
        std::vector<double> scales, bias;
        if (!columns && !quantum_of(*b)) return "the number of columns is not known";
        if (auto why = weight_scales(*b, axis, columns.value_or(-1), scales); !why.empty()) return why;
        if (auto why = bias_of(node, product.epilogue.bias, bias); !why.empty()) return why;
        for (auto& scale : scales) scale *= static_cast<double>(a_quantum->scale) * static_cast<double>(product.alpha);
        if (product.alpha == 0) return "alpha is 0";
        if (!columns && !bias.empty()) return "the number of columns is not known";
        auto* a_data = product.trans_a ? transposed(a->data) : a->data;
        auto* b_data = product.trans_b ? transposed(b->data) : b->data;
        std::vector<EdgePtr> inputs{a_data, b_data, a->zero, b->zero};
        inputs.resize(I::kInputs);
        IntegerTail tail(rank - 1, columns.value_or(-1), node->output(), std::move(scales), std::move(bias));
        replace(node, kernel::IntegerMatMulInfo{}, std::move(inputs), tail);
        return {};
    }
};

bool reads_dequantized(NodePtr node) {
    for (auto* input : node->inputs())
        if (producer_info<kernel::DequantizeInfo>(input)) return true;
    return false;
}

}  // namespace

int fold_quantization(Model& model, PassContext const& context) {
    if (context.options.device == "cpu" && context.isa < Isa::Avx2) return 0;
    int folded = 0;
    Folding folding(model.graph);
    for (auto* node : model.graph.topological()) {
        if (auto const* sums = info_of<kernel::IntegerMatMulInfo>(*node->value.op)) {
            auto axis = node->output()->value.shape.size() - 1;
            folded += folding.fold_sums(node, *sums, axis) || folding.fold_bytes(node, *sums, axis);
            continue;
        }
        if (auto const* sums = info_of<kernel::IntegerConvInfo>(*node->value.op)) {
            folded += folding.fold_sums(node, *sums, 1) || folding.fold_bytes(node, *sums, 1);
            continue;
        }
        if (!reads_dequantized(node)) continue;
        Reason why;
        if (auto const* conv = info_of<kernel::ConvInfo>(*node->value.op))
            why = folding.fold_conv(node, kernel::ConvInfo(*conv));
        else if (auto const* transposed = info_of<kernel::ConvTransposeInfo>(*node->value.op))
            why = context.options.device == "cpu"
                      ? folding.fold_transposed(node, kernel::ConvTransposeInfo(*transposed))
                      : "bytes of transposed convolutions are for the CPU";
        else if (auto const* product = info_of<kernel::MatMulInfo>(*node->value.op))
            why = folding.fold_product(node, kernel::MatMulInfo(*product));
        else
            continue;
        if (why.empty())
            ++folded;
        else
            context.note(std::string(node->value.op->type()) + " node \"" + node->value.name + "\" stays f32: " + why);
    }
    return folded;
}

}  // namespace refactor::computation
