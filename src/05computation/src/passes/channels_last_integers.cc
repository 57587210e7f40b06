#include "passes/channels_last_integers.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "passes/channels_last_region.h"
#include "passes/quantized.h"

#include <algorithm>

namespace refactor::computation {

using I = kernel::IntegerMatMulInfo;

namespace {

/// An average over windows, as pooling or reduction.
struct Average {
    kernel::IntegerPoolInfo info;
    bool keeps_axes = true;

    static std::optional<Average> of(NodePtr node) {
        auto const& op = *node->value.op;
        if (!is_image(node->input(0)) || node->outputs().size() != 1) return std::nullopt;
        Average average{{kernel::PoolKind::Average}};
        if (auto const* global = info_of<kernel::GlobalPoolInfo>(op)) {
            if (global->kind == kernel::PoolKind::Average) return average;
        } else if (auto const* pool = info_of<kernel::PoolInfo>(op)) {
            average.info.kernel = pool->kernel, average.info.window = pool->window;
            average.info.count_include_pad = pool->count_include_pad;
            if (pool->kind == kernel::PoolKind::Average && op.params().empty()) return average;
        } else if (auto const* reduce = info_of<kernel::ReduceInfo>(op)) {
            auto rank = node->input(0)->value.shape.size();
            bool spatial = reduce->kind == kernel::ReduceKind::Mean && reduce->axes.size() == rank - 2;
            for (size_t i = 0; spatial && i < reduce->axes.size(); ++i)
                spatial = reduce->axes[i] == static_cast<int64_t>(i + 2);
            average.keeps_axes = node->output()->value.shape.size() == rank;
            if (spatial) return average;
        }
        return std::nullopt;
    }
};

class Region : ChannelsLastRegion {
    bool convert_conv(NodePtr node) {
        auto const* conv = info_of<kernel::IntegerConvInfo>(*node->value.op);
        if (!conv || conv->channels_last || !is_image(node->output())) return false;
        auto info = *conv;
        info.channels_last = true;
        auto params = node->value.op->params();
        std::vector<bool> follows(I::kInputs);
        follows[I::kA] = true, follows[I::kResidual] = node->input(I::kResidual) != nullptr;
        convert(node, make_operator(std::move(info), {params.begin(), params.end()}), follows);
        return true;
    }

    bool convert_max_pool(NodePtr node) {
        auto const* pool = info_of<kernel::PoolInfo>(*node->value.op);
        auto dtype = node->output()->value.dtype;
        if (!pool || pool->kind != kernel::PoolKind::Max || node->outputs().size() != 1 || !is_image(node->output()) ||
            (dtype != DataType::U8 && dtype != DataType::I8))
            return false;
        auto params = node->value.op->params();
        kernel::IntegerPoolInfo info{kernel::PoolKind::Max, pool->kernel, pool->window};
        convert(node, make_operator(std::move(info), {params.begin(), params.end()}), {true});
        return true;
    }

    /// What `edge` holds as bytes, with or without the channels last.
    std::optional<QuantizedOperand> bytes_of(EdgePtr edge) const {
        auto it = last_.find(edge);
        return dequantized(it == last_.end() ? edge : it->second);
    }

    /// What `node` averages, if that can be done with bytes.
    std::optional<QuantizedOperand> averaged_bytes(NodePtr node) const {
        auto operand = Average::of(node) && !node->output()->value.keep ? bytes_of(node->input(0)) : std::nullopt;
        return operand && quantum_of(*operand) ? operand : std::nullopt;
    }

    bool convert_average(NodePtr node) {
        auto operand = averaged_bytes(node);
        if (!operand) return false;
        auto average = Average::of(node);
        auto x = quantum_of(*operand);
        bool inside = last_.contains(node->input(0));
        auto* y = node->output();
        auto* next = y->only_consumer();
        auto to = next ? quantizer(next) : std::nullopt;
        if (to && to->dtype != x->dtype) to.reset();
        auto& info = average->info;
        info.x_zero = x->zero, info.scale = to ? x->scale / to->scale : x->scale;
        if (to) info.y_zero = to->zero, y = next->output();
        auto pooled = node->input(0)->value.shape;
        if (average->keeps_axes)
            pooled = y->value.shape;
        else
            for (size_t i = 2; i < pooled.size(); ++i) pooled[i] = DimExpr(1);
        auto* bytes = inside ? operand->data : with_channels_last(operand->data);
        auto* made = graph_.insert({node->value.name, make_operator(info)}, {bytes});
        if (average->keeps_axes) {
            produce(made->output(), y);
        } else {
            made->output()->value = {
                y->value.name + "/pooled", y->value.dtype, channels_last(pooled), {}, nullptr, false};
            graph_.insert_producing({node->value.name + "/reshape", std::make_shared<Reshape>()}, {made->output()},
                                    {y});
        }
        if (to) graph_.erase(next);
        auto* before = node->input(0)->producer();
        graph_.erase(node);
        if (!inside && before->output()->use_count() == 0 && !before->output()->value.keep) graph_.erase(before);
        return true;
    }

    /// The least or greatest of all elements, whose order does not matter.
    bool read_in_any_order(NodePtr node) {
        auto const* reduce = info_of<kernel::ReduceInfo>(*node->value.op);
        auto it = last_.find(node->input(0));
        if (!reduce || it == last_.end() || reduce->axes.size() != node->input(0)->value.shape.size()) return false;
        if (reduce->kind != kernel::ReduceKind::Min && reduce->kind != kernel::ReduceKind::Max) return false;
        graph_.set_input(node, 0, it->second);
        return true;
    }

    bool convert_float_reduction(NodePtr node) {
        return !node->outputs().empty() && node->output()->value.dtype == DataType::F32 && convert_reduction(node);
    }

    /// Whether floats that are made inside of the region are read there.
    bool stays(EdgePtr edge) const {
        auto const uses = edge->consumers();
        return !edge->is_output() && std::all_of(uses.begin(), uses.end(), [&](auto const& use) {
            auto const& op = *use.node->value.op;
            return info_of<kernel::ElementwiseInfo>(op) || info_of<kernel::QuantizeInfo>(op) ||
                   averaged_bytes(use.node);
        });
    }

    /// Elementwise nodes and those around bytes. Floats that leave the region would be transposed instead of bytes.
    bool follow_bytes(NodePtr node) {
        if (info_of<kernel::DequantizeInfo>(*node->value.op) && !stays(node->output())) return false;
        return follow(node, true);
    }

    /// Bytes for convolutions alone, which read them with the channels last: what comes from outside is moved before.
    bool convert_concat_of_bytes(NodePtr node) {
        if (!info_of<kernel::ConcatInfo>(*node->value.op) || node->output()->is_output() ||
            bits_of(node->output()->value.dtype) != 8 || !is_image(node->output()))
            return false;
        auto const inputs = node->inputs();
        if (std::none_of(inputs.begin(), inputs.end(), [&](EdgePtr input) { return last_.contains(input); }))
            return false;
        for (auto const& use : node->output()->consumers())
            if (!info_of<kernel::IntegerConvInfo>(*use.node->value.op) || use.slot != I::kA) return false;
        for (auto* input : inputs) with_channels_last(input);
        return convert_concat(node);
    }

    /// Bytes, or what a convolution of the region made and others moved.
    static bool belongs(NodePtr node) {
        if (node->outputs().size() != 1) return false;
        auto* edge = node->output();
        if (edge->value.dtype == DataType::U8 || edge->value.dtype == DataType::I8) return true;
        while (auto* maker = edge->producer()) {
            auto const& op = *maker->value.op;
            if (auto const* conv = info_of<kernel::IntegerConvInfo>(op)) return conv->channels_last;
            if (!op.is_alias() && !info_of<kernel::TransposeInfo>(op) && !info_of<kernel::SliceInfo>(op)) break;
            edge = maker->input(0);
        }
        return false;
    }

public:
    explicit Region(Graph& graph) : ChannelsLastRegion(graph) {}
    bool take(NodePtr node) {
        if (belongs(node) && adopt(node)) return false;
        return convert_conv(node) || convert_max_pool(node) || convert_average(node) || convert_concat(node) ||
               convert_concat_of_bytes(node) || convert_split(node) || convert_float_reduction(node) ||
               read_in_any_order(node) || follow_bytes(node);
    }
};

}  // namespace

int channels_last_integers(Model& model, PassContext const& context) {
    if (context.options.device == "cpu" && context.isa < Isa::Avx2) return 0;
    int changes = 0;
    Region region(model.graph);
    for (auto* node : model.graph.topological()) changes += region.take(node);
    return changes;
}

}  // namespace refactor::computation
