#include "passes/fold_affine.h"

#include "common/half.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "passes/affine.h"
#include "passes/constants.h"
#include "passes/epilogue_host.h"

#include <algorithm>
#include <cmath>

namespace refactor::computation {

namespace {

/// How the output channel of a weight element follows from its position: `position / inner % channels`, in groups of
/// `outer`.
struct WeightOrder {
    int64_t channels = 0, inner = 1;
    int64_t groups = 1,
            group_inputs = 1;  ///< transposed convolution: [groups · group_inputs, channels / groups, inner]
    int64_t channel_at(int64_t i) const {
        auto per_group = channels / groups;
        return i / (inner * per_group * group_inputs) * per_group + i / inner % per_group;
    }
};

bool is_half(DataType type) { return type == DataType::F16 || type == DataType::BF16; }

using Shared = std::shared_ptr<mem_manager::Blob const>;

/// In `type`; null if one of them is too large for it.
Shared rounded(std::vector<float> const& numbers, DataType type) {
    auto count = static_cast<int64_t>(numbers.size());
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), storage_bytes(type, count));
    convert(DataType::F32, numbers.data(), type, blob->data(), count);
    if (!is_half(type)) return blob;
    std::vector<float> back(numbers.size());
    convert(type, blob->data(), DataType::F32, back.data(), count);
    bool fits = std::all_of(back.begin(), back.end(), [](float x) { return std::isfinite(x); });
    return fits ? blob : nullptr;
}

Shared scaled(EdgePtr weights, WeightOrder const& order, std::vector<double> const& a) {
    auto type = weights->value.dtype;
    auto count = *element_count(weights->value.shape).constant();
    std::vector<float> numbers(static_cast<size_t>(count));
    convert(type, weights->value.constant->data(), DataType::F32, numbers.data(), count);
    for (int64_t i = 0; i < count; ++i) {
        auto& x = numbers[static_cast<size_t>(i)];
        x = static_cast<float>(static_cast<double>(x) * pick(a, static_cast<size_t>(order.channel_at(i))));
    }
    return rounded(numbers, type);
}

Shared folded_bias(NodePtr host, bool has_bias, Affine const& affine, int64_t channels) {
    auto old = has_bias ? numbers_of(host->input(2)) : std::vector<double>{0};
    std::vector<float> numbers;
    for (size_t i = 0; i < static_cast<size_t>(channels); ++i)
        numbers.push_back(static_cast<float>(pick(affine.b, i) + pick(affine.a, i) * pick(*old, i)));
    return rounded(numbers, host->output()->value.dtype);
}

struct Host {
    kernel::Epilogue epilogue;
    size_t axis = 1;
    std::optional<WeightOrder> order;  ///< nothing: the weights cannot be scaled
    int64_t channels = 0;
};

int64_t inner_count(Shape const& shape, size_t first) {
    int64_t count = 1;
    for (auto i = first; i < shape.size(); ++i) count *= shape[i].constant().value_or(0);
    return count;
}

std::optional<Host> host_of(NodePtr node) {
    auto const& op = *node->value.op;
    auto* weights = node->input(1);
    if (!weights) return std::nullopt;
    auto type = weights->value.dtype;
    if ((type != DataType::F32 && !is_half(type)) || node->output()->value.dtype != type) return std::nullopt;
    bool constant = weights->value.constant != nullptr;
    auto const& shape = weights->value.shape;
    if (auto const* conv = info_of<kernel::ConvInfo>(op)) {
        auto channels = shape[0].constant();
        if (!channels || !constant) return std::nullopt;
        return Host{conv->epilogue, 1, WeightOrder{*channels, inner_count(shape, 1), 1, 1}, *channels};
    }
    if (auto const* conv = info_of<kernel::ConvTransposeInfo>(op)) {
        auto inputs = shape[0].constant(), outputs = shape[1].constant();
        if (!inputs || !outputs || !constant) return std::nullopt;
        auto channels = *outputs * conv->group;
        return Host{conv->epilogue, 1, WeightOrder{channels, inner_count(shape, 2), conv->group, *inputs / conv->group},
                    channels};
    }
    if (auto const* product = info_of<kernel::MatMulInfo>(op)) {
        auto channels = shape.size() < 2 ? std::nullopt : shape[shape.size() - (product->trans_b ? 2 : 1)].constant();
        if (!channels) return std::nullopt;
        Host host{product->epilogue, node->output()->value.shape.size() - 1, std::nullopt, *channels};
        auto inner = product->trans_b ? inner_count(shape, 1) : 1;
        if (constant && shape.size() == 2)
            host.order = WeightOrder{*channels, inner, 1, shape[0].constant().value_or(1)};
        if (host.order && product->trans_b) host.order->group_inputs = 1;
        return host;
    }
    return std::nullopt;
}

bool is_one(std::vector<double> const& values) {
    for (auto value : values)
        if (value != 1) return false;
    return true;
}

bool is_zero(std::vector<double> const& values) {
    for (auto value : values)
        if (value != 0) return false;
    return true;
}

bool fold(Graph& graph, NodePtr node) {
    auto* host = node->output()->only_consumer();
    if (!host || node->output()->value.keep || !info_of<kernel::ElementwiseInfo>(*host->value.op)) return false;
    auto target = host_of(node);
    if (!target || host->outputs().size() != 1 || host->output()->value.shape != node->output()->value.shape)
        return false;
    auto const epilogue = target->epilogue;
    if (epilogue.residual || epilogue.activation.kind != kernel::ActivationKind::None) return false;
    if (epilogue.bias && !node->input(2)->value.constant) return false;
    auto affine = affine_of(host, node->output(), target->axis, target->channels);
    if (!affine || host->output()->value.dtype != node->output()->value.dtype) return false;
    bool scales = !is_one(affine->a), has_bias = epilogue.bias || !is_zero(affine->b);
    if (scales && !target->order) return false;
    auto* old = node->input(1);
    auto weights = scales ? scaled(old, *target->order, affine->a) : nullptr;
    auto numbers = has_bias ? folded_bias(node, epilogue.bias, *affine, target->channels) : nullptr;
    if ((scales && !weights) || (has_bias && !numbers)) return false;
    auto type = old->value.dtype;
    if (scales)
        graph.set_input(node, 1,
                        add_constant(graph, old->value.name + ".scaled", type, old->value.shape, std::move(weights)));
    if (has_bias) {
        auto* bias = add_constant(graph, node->value.name + ".bias", type, {DimExpr(target->channels)}, numbers);
        if (epilogue.bias)
            graph.set_input(node, 2, bias);
        else
            graph.push_input(node, bias);
        auto with_bias = epilogue;
        with_bias.bias = true;
        set_epilogue(node, with_bias);
    }
    node->output()->value = host->output()->value;
    graph.replace_all_uses(host->output(), node->output());
    graph.erase(host);
    return true;
}

}  // namespace

int fold_affine(Model& model, PassContext const&) {
    int folded = 0;
    for (auto* node : model.graph.topological())
        while (fold(model.graph, node)) ++folded;
    return folded;
}

}  // namespace refactor::computation
