#include "passes/fold_affine.h"

#include "common/half.h"
#include "kernel/ops/conv.h"
#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "made_constants.h"
#include "mem_manager/blob.h"
#include "mem_manager/device.h"
#include "passes/affine.h"
#include "passes/constants.h"
#include "passes/epilogue_host.h"
#include "passes/expression.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace refactor::computation {

namespace {

/// Which output channels the elements of weights belong to: `groups` times `group_inputs` times as many runs of `inner`
/// elements as a group has channels.
struct WeightOrder {
    int64_t channels = 0, inner = 1;
    int64_t groups = 1,
            group_inputs = 1;  ///< transposed convolution: [groups · group_inputs, channels / groups, inner]

    void scale(std::span<float> weights, std::vector<double> const& factors) const {
        auto per_group = channels / groups;
        auto* x = weights.data();
        for (int64_t group = 0; group < groups; ++group)
            for (int64_t input = 0; input < group_inputs; ++input)
                for (int64_t channel = group * per_group; channel < (group + 1) * per_group; ++channel, x += inner) {
                    auto factor = pick(factors, static_cast<size_t>(channel));
                    for (int64_t i = 0; i < inner; ++i) x[i] = static_cast<float>(static_cast<double>(x[i]) * factor);
                }
    }
};

/// Whether all of them are numbers, and, unless they may fade to zeros, one at least is large enough to be a normal
/// one.
bool are_in_range(mem_manager::Blob const& constant, DataType type, bool may_fade) {
    constexpr int64_t kPart = 4096;
    float part[kPart];
    int32_t exponents = 0;
    bool finite = true;
    mem_manager::Blob::Reader reader(constant);
    auto const* data = static_cast<std::byte const*>(reader.data());
    auto count = static_cast<int64_t>(constant.bytes() / storage_bytes(type, 1));
    for (int64_t first = 0; first < count; first += kPart) {
        auto some = std::min(kPart, count - first);
        convert(type, data + storage_bytes(type, first), DataType::F32, part, some);
        for (auto x : std::span(part, static_cast<size_t>(some))) {
            auto exponent = std::bit_cast<int32_t>(x) & 0x7f800000;
            exponents |= exponent, finite &= exponent != 0x7f800000;
        }
    }
    return finite && (may_fade || exponents != 0);
}

bool is_half(DataType type) { return type == DataType::F16 || type == DataType::BF16; }

/// In `type`; null if one of them is too large for it.
SharedBlob rounded(std::vector<float> const& numbers, DataType type) {
    auto count = static_cast<int64_t>(numbers.size());
    auto blob = mem_manager::Blob::make(mem_manager::cpu_device(), storage_bytes(type, count));
    convert(DataType::F32, numbers.data(), type, blob->data(), count);
    if (!is_half(type)) return blob;
    std::vector<float> back(numbers.size());
    convert(type, blob->data(), DataType::F32, back.data(), count);
    bool fits = std::all_of(back.begin(), back.end(), [](float x) { return std::isfinite(x); });
    return fits ? blob : nullptr;
}

SharedBlob scaled(EdgePtr weights, WeightOrder const& order, std::vector<double> const& a) {
    auto type = weights->value.dtype;
    auto count = *element_count(weights->value.shape).constant();
    auto scale = [=](std::span<void const* const> from, void* to) {
        std::vector<float> wide(type == DataType::F32 ? 0 : static_cast<size_t>(count));
        std::span numbers(wide.empty() ? static_cast<float*>(to) : wide.data(), static_cast<size_t>(count));
        convert(type, from[0], DataType::F32, numbers.data(), count);
        order.scale(numbers, a);
        if (!wide.empty()) convert(DataType::F32, wide.data(), type, to, count);
    };
    auto scaled = make_constant(storage_bytes(type, count), {weights->value.constant}, scale);
    bool fades = std::find(a.begin(), a.end(), 0.) != a.end();
    return are_in_range(*scaled, type, fades) ? scaled : nullptr;
}

SharedBlob folded_bias(NodePtr host, bool has_bias, Affine const& affine, int64_t channels) {
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

bool all_are(std::vector<double> const& values, double expected) {
    return std::all_of(values.begin(), values.end(), [&](double value) { return value == expected; });
}

/// The Elementwise node of one output that alone reads the output of `node`, in its shape and type; else null.
NodePtr elementwise_behind(NodePtr node) {
    auto const& value = node->output()->value;
    auto* reader = node->output()->only_consumer();
    if (value.keep || !reader || !info_of<kernel::ElementwiseInfo>(*reader->value.op) || reader->outputs().size() != 1)
        return nullptr;
    auto const& result = reader->output()->value;
    return result.shape == value.shape && result.dtype == value.dtype ? reader : nullptr;
}

/// Whatever reads the output of `node` reads that of `host`, which takes its name, and `node` is gone.
void replace(Graph& graph, NodePtr node, NodePtr host) {
    host->output()->value = node->output()->value;
    graph.replace_all_uses(node->output(), host->output());
    graph.erase(node);
}

/// Scales and shifts what `node` computes by its weights and bias; false, and nothing done, if they do not allow it.
bool apply(Graph& graph, NodePtr node, Host const& host, Affine const& affine) {
    auto const& epilogue = host.epilogue;
    if (epilogue.residual || epilogue.activation.kind != kernel::ActivationKind::None) return false;
    if (epilogue.bias && !node->input(2)->value.constant) return false;
    bool scales = !all_are(affine.a, 1), has_bias = epilogue.bias || !all_are(affine.b, 0);
    if (scales && !host.order) return false;
    auto* old = node->input(1);
    auto weights = scales ? scaled(old, *host.order, affine.a) : nullptr;
    auto numbers = has_bias ? folded_bias(node, epilogue.bias, affine, host.channels) : nullptr;
    if ((scales && !weights) || (has_bias && !numbers)) return false;
    auto type = old->value.dtype;
    if (scales)
        graph.set_input(node, 1,
                        add_constant(graph, old->value.name + ".scaled", type, old->value.shape, std::move(weights)));
    if (has_bias) {
        auto* bias = add_constant(graph, node->value.name + ".bias", type, {DimExpr(host.channels)}, numbers);
        if (epilogue.bias)
            graph.set_input(node, 2, bias);
        else
            graph.push_input(node, bias);
        auto with_bias = epilogue;
        with_bias.bias = true;
        set_epilogue(node, with_bias);
    }
    return true;
}

bool fold(Graph& graph, NodePtr node) {
    auto host = host_of(node);
    auto* reader = host ? elementwise_behind(node) : nullptr;
    auto affine = reader ? affine_of(reader, node->output(), host->axis, host->channels) : std::nullopt;
    if (!affine || !apply(graph, node, *host, *affine)) return false;
    replace(graph, reader, node);
    return true;
}

/// The bounds that the Elementwise `node` keeps `x` between, and nothing else that it does; Relu has 0 and infinity.
std::optional<std::pair<double, double>> bounds_of(NodePtr node, EdgePtr x) {
    auto expression = Expression::of(node);
    expression.normalize();
    auto const& last = expression.code[expression.outputs[0]];
    if (expression.inputs.size() != 1 || expression.input(last.operands[0]) != x) return std::nullopt;
    if (last.op == kernel::ExprOp::Relu) return std::pair{0., std::numeric_limits<double>::infinity()};
    if (last.op != kernel::ExprOp::Clip) return std::nullopt;
    auto low = expression.constant(last.operands[1]), high = expression.constant(last.operands[2]);
    return low && high ? std::optional(std::pair{*low, *high}) : std::nullopt;
}

Expression clip_between(EdgePtr x, double low, double high) {
    auto type = x->value.dtype;
    auto expression = make_expression(kernel::ExprOp::Clip, type, {x});
    expression.code.pop_back();
    kernel::ExprInstruction bound, clip;
    bound.op = kernel::ExprOp::Constant, clip.op = kernel::ExprOp::Clip, bound.dtype = clip.dtype = type;
    for (double value : {low, high}) bound.value = value, expression.append(bound);
    clip.operands[0] = 0, clip.operands[1] = 1, clip.operands[2] = 2;
    expression.outputs = {expression.append(clip)};
    return expression;
}

/// a·clip(x, low, high) + b = clip(a·x + b, a·low + b, a·high + b) for one a > 0 and one b: what is behind the clip is
/// folded as if it were before it.
bool fold_behind_clip(Graph& graph, NodePtr node) {
    auto host = host_of(node);
    auto* clip = host ? elementwise_behind(node) : nullptr;
    auto* reader = clip ? elementwise_behind(clip) : nullptr;
    auto bounds = reader ? bounds_of(clip, node->output()) : std::nullopt;
    auto affine = bounds ? affine_of(reader, clip->output(), host->axis, host->channels) : std::nullopt;
    if (!affine || !(affine->a[0] > 0) || !all_are(affine->a, affine->a[0]) || !all_are(affine->b, affine->b[0]))
        return false;
    double a = affine->a[0], b = affine->b[0];
    if (!std::isfinite(a) || !std::isfinite(b) || !apply(graph, node, *host, *affine)) return false;
    if (std::pair moved{a * bounds->first + b, a * bounds->second + b}; moved != *bounds)
        clip_between(node->output(), moved.first, moved.second).store(graph, clip);
    replace(graph, reader, clip);
    return true;
}

}  // namespace

int fold_affine(Model& model, PassContext const&) {
    int folded = 0;
    for (auto* node : model.graph.topological())
        while (fold(model.graph, node) || fold_behind_clip(model.graph, node)) ++folded;
    return folded;
}

}  // namespace refactor::computation
