#include "passes/channels_last_integers.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "passes/quantized.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace refactor::computation {

using I = kernel::IntegerMatMulInfo;

namespace {

bool is_scalar(EdgePtr edge) { return element_count(edge->value.shape) == DimExpr(1); }

Shape channels_last(Shape const& shape) {
    Shape result{shape[0]};
    result.insert(result.end(), shape.begin() + 2, shape.end());
    result.push_back(shape[1]);
    return result;
}

bool is_image(EdgePtr edge) { return edge && edge->value.shape.size() >= 3 && edge->value.shape.size() <= 5; }

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
            auto padded = [](auto const& pads) {
                return std::any_of(pads.begin(), pads.end(), [](auto p) { return p; });
            };
            bool plain = !padded(pool->window.pads_begin) && !padded(pool->window.pads_end) && op.params().empty();
            average.info.kernel = pool->kernel, average.info.window = pool->window;
            if (pool->kind == kernel::PoolKind::Average && plain && !pool->count_include_pad) return average;
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

class Region {
    Graph& graph_;
    std::unordered_map<EdgePtr, EdgePtr> last_;  ///< tensors that exist with channels last

    EdgePtr transpose(EdgePtr edge, bool to_last) {
        auto rank = static_cast<int64_t>(edge->value.shape.size());
        kernel::TransposeInfo info;
        info.perm = {0};
        for (int64_t i = 1; i < rank; ++i)
            info.perm.push_back(to_last ? i % (rank - 1) + 1 : (i + rank - 3) % (rank - 1) + 1);
        auto* node = graph_.insert({edge->value.name + "/transpose", make_operator(info)}, {edge});
        return node->output();
    }
    EdgePtr with_channels_last(EdgePtr edge) {
        auto [it, fresh] = last_.try_emplace(edge, nullptr);
        if (fresh) {
            auto* moved = transpose(edge, true);
            moved->value = {
                edge->value.name + "/last", edge->value.dtype, channels_last(edge->value.shape), {}, nullptr, false};
            last_[edge] = moved;
            return moved;
        }
        return it->second;
    }
    /// `y` is what the output 0 of `node` is with channels in front.
    void produce(NodePtr node, EdgePtr y) {
        auto* moved = node->output();
        moved->value = {y->value.name + "/last", y->value.dtype, channels_last(y->value.shape), {}, nullptr, false};
        auto* back = transpose(moved, false);
        auto* reverse = back->producer();
        auto op = reverse->value;
        graph_.erase(reverse);
        graph_.insert_producing(std::move(op), {moved}, {y});
        last_[y] = moved;
    }
    void convert(NodePtr node, std::shared_ptr<Operator const> op, std::vector<bool> const& follows) {
        std::vector<EdgePtr> inputs;
        for (size_t i = 0; i < node->inputs().size(); ++i)
            inputs.push_back(follows[i] ? with_channels_last(node->input(i)) : node->input(i));
        auto* y = node->output();
        produce(graph_.insert({node->value.name, std::move(op)}, inputs), y);
        graph_.erase(node);
    }

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

    bool convert_average(NodePtr node) {
        auto average = Average::of(node);
        auto operand = average ? dequantized(node->input(0)) : std::nullopt;
        auto x = operand ? quantum_of(*operand) : std::nullopt;
        if (!x || node->output()->value.keep) return false;
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
        auto* made = graph_.insert({node->value.name, make_operator(info)}, {with_channels_last(operand->data)});
        if (average->keeps_axes) {
            produce(made, y);
        } else {
            made->output()->value = {
                y->value.name + "/pooled", y->value.dtype, channels_last(pooled), {}, nullptr, false};
            graph_.insert_producing({node->value.name + "/reshape", std::make_shared<Reshape>()}, {made->output()},
                                    {y});
        }
        if (to) graph_.erase(next);
        auto* before = node->input(0)->producer();
        graph_.erase(node);
        if (before->output()->use_count() == 0 && !before->output()->value.keep) graph_.erase(before);
        return true;
    }

    /// One value per channel, [C, 1…] or [1, C, 1…], for a tensor like `y`.
    static bool is_per_channel(EdgePtr edge, EdgePtr y) {
        auto const &shape = edge->value.shape, &full = y->value.shape;
        if (shape.size() > full.size() || shape.size() + 1 < full.size()) return false;
        for (size_t i = 0; i < shape.size(); ++i)
            if (!(shape[i] == (i + full.size() - shape.size() == 1 ? full[1] : DimExpr(1)))) return false;
        return true;
    }
    /// The same values along the last axis.
    EdgePtr as_last_axis(EdgePtr edge, DimExpr const& channels) {
        auto* node = graph_.insert({edge->value.name + "/reshape", std::make_shared<Reshape>()}, {edge});
        node->output()->value = {edge->value.name + "/last", edge->value.dtype, {channels}, {}, nullptr, false};
        return node->output();
    }

    /// Elementwise and quantising nodes whose tensors all lie in the region.
    bool follow(NodePtr node) {
        auto const& op = *node->value.op;
        auto const* quantize = info_of<kernel::QuantizeInfo>(op);
        auto const* dequantize = info_of<kernel::DequantizeInfo>(op);
        if (!quantize && !dequantize && !info_of<kernel::ElementwiseInfo>(op)) return false;
        if (node->outputs().size() != 1 || !is_image(node->output())) return false;
        std::vector<bool> follows;
        for (auto* input : node->inputs()) {
            bool across =
                !quantize && !dequantize && input && !is_scalar(input) && is_per_channel(input, node->output());
            follows.push_back(input && !is_scalar(input) && !across);
            if (follows.back() && (!last_.contains(input) || input->value.shape != node->output()->value.shape))
                return false;
        }
        if (std::none_of(follows.begin(), follows.end(), [](bool f) { return f; })) return false;
        // Floats that leave the region would be transposed instead of bytes.
        if (dequantize)
            for (auto const& use : node->output()->consumers())
                if (!info_of<kernel::ElementwiseInfo>(*use.node->value.op) &&
                    !info_of<kernel::QuantizeInfo>(*use.node->value.op))
                    return false;
        if (dequantize && node->output()->is_output()) return false;
        for (size_t i = 0; i < follows.size(); ++i)
            if (!follows[i] && node->input(i) && !is_scalar(node->input(i)))
                graph_.set_input(node, i, as_last_axis(node->input(i), node->output()->value.shape[1]));
        convert(node, node->value.op, follows);
        return true;
    }

    bool convert_concat(NodePtr node) {
        auto const* concat = info_of<kernel::ConcatInfo>(*node->value.op);
        if (!concat || !is_image(node->output())) return false;
        for (auto* input : node->inputs())
            if (!last_.contains(input)) return false;
        auto axis = concat->axis, rank = static_cast<int64_t>(node->output()->value.shape.size());
        kernel::ConcatInfo info{axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1};
        convert(node, make_operator(info), std::vector<bool>(node->inputs().size(), true));
        return true;
    }

public:
    explicit Region(Graph& graph) : graph_(graph) {}
    bool take(NodePtr node) {
        return convert_conv(node) || convert_max_pool(node) || convert_average(node) || convert_concat(node) ||
               follow(node);
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
