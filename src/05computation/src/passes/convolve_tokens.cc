#include "passes/convolve_tokens.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/matmul.h"
#include "made_constants.h"
#include "passes/constants.h"
#include "passes/edges.h"

namespace refactor::computation {

namespace {

using kernel::Layout;

/// Of the smaller side. A reorder takes as long as a product of about 12 inputs; products of more channels than these
/// are faster than convolutions of one tap by more than that (Strassen's algorithm).
constexpr int64_t kMostChannels = 96;

/// A product of tokens with constant weights [K, N], in f32.
struct Linear {
    NodePtr node = nullptr;  ///< null: there is none
    kernel::Epilogue epilogue;
    int64_t k = 0, n = 0;

    EdgePtr bias() const { return epilogue.bias ? node->input(2) : nullptr; }
    EdgePtr residual() const { return epilogue.residual ? node->input(2 + epilogue.bias) : nullptr; }
};

Linear linear_of(NodePtr node) {
    auto const* info = node ? info_of<kernel::MatMulInfo>(*node->value.op) : nullptr;
    if (!info || info->trans_a || info->trans_b || info->scaled || info->alpha != 1) return {};
    auto const &x = node->input(0)->value, &w = node->input(1)->value, &y = node->output()->value;
    if (x.dtype != DataType::F32 || w.dtype != DataType::F32 || !w.constant || w.shape.size() != 2) return {};
    if (x.shape.size() < 3 || y.shape.size() != x.shape.size()) return {};
    Linear found{node, info->epilogue, w.shape[0].constant().value_or(0), w.shape[1].constant().value_or(0)};
    if (auto* bias = found.bias(); bias && bias->value.shape != Shape{DimExpr(found.n)}) return {};
    if (auto* residual = found.residual(); residual && residual->value.shape != y.shape) return {};
    return found;
}

/// [K, N] as the weights [N, K, 1, …] of a convolution with so many spatial axes.
EdgePtr as_taps(Graph& graph, Linear const& linear, size_t axes) {
    auto const& value = linear.node->input(1)->value;
    auto turn = [rows = linear.k, columns = linear.n](std::span<void const* const> sources, void* target) {
        auto const* from = static_cast<float const*>(sources[0]);
        auto* to = static_cast<float*>(target);
        for (int64_t k = 0; k < rows; ++k)
            for (int64_t n = 0; n < columns; ++n) to[n * rows + k] = from[k * columns + n];
    };
    Shape shape{DimExpr(linear.n), DimExpr(linear.k)};
    shape.resize(2 + axes, DimExpr(1));
    return add_constant(graph, value.name + ".taps", value.dtype, std::move(shape),
                        make_constant(value.constant->bytes(), {value.constant}, turn));
}

/// `like` with so many channels.
Edge image_of(Edge like, int64_t channels, std::string name) {
    like.shape[1] = DimExpr(channels), like.name = std::move(name), like.keep = false;
    return like;
}

EdgePtr reorder(Graph& graph, EdgePtr from, Edge to) {
    auto* node = graph.insert({"reorder of " + from->value.name, make_operator(kernel::ReorderInfo{true})}, {from});
    node->output()->value = std::move(to);
    return node->output();
}

/// `linear` of an image in blocks of channels.
EdgePtr convolve(Graph& graph, Linear const& linear, EdgePtr image, EdgePtr residual, Edge result) {
    auto const axes = image->value.shape.size() - 2;
    kernel::ConvInfo info;
    info.window = {Dims(axes, 1), Dims(axes, 1), Dims(axes, 0), Dims(axes, 0)};
    info.epilogue = linear.epilogue;
    info.may_round = info_of<kernel::MatMulInfo>(*linear.node->value.op)->may_round;
    std::vector<EdgePtr> inputs{image, as_taps(graph, linear, axes)};
    if (auto* bias = linear.bias()) inputs.push_back(bias);
    if (residual) inputs.push_back(residual);
    auto* node = graph.insert({linear.node->value.name, make_operator(info)}, inputs);
    node->output()->value = std::move(result);
    return node->output();
}

/// `node` reorders the result of a product into blocks.
bool convolve_before(Graph& graph, NodePtr node) {
    auto *x = node->input(0), *y = node->output();
    auto const linear = is_private(x) ? linear_of(x->producer()) : Linear{};
    if (!linear.node || linear.epilogue.residual || linear.k > kMostChannels || 2 * linear.k > linear.n) return false;
    auto* tokens = linear.node->input(0);
    auto* image = reorder(graph, tokens, image_of(y->value, linear.k, tokens->value.name + ".image"));
    graph.replace_all_uses(y, convolve(graph, linear, image, nullptr, y->value));
    graph.erase_unused(node);
    return true;
}

/// `node` reorders blocks into what a product reads.
bool convolve_behind(Graph& graph, NodePtr node) {
    auto *x = node->input(0), *y = node->output();
    auto const linear = is_private(y) ? linear_of(y->only_consumer()) : Linear{};
    auto const moved = linear.n * (linear.epilogue.residual ? 2 : 1);
    if (!linear.node || linear.node->input(0) != y || linear.n > kMostChannels || 2 * moved > linear.k) return false;
    auto* result = linear.node->output();
    auto const image = image_of(x->value, linear.n, result->value.name + ".image");
    auto* residual = linear.residual();
    if (residual) {
        auto made = image;
        made.name = residual->value.name + ".image";
        residual = reorder(graph, residual, std::move(made));
    }
    auto* product = linear.node;
    auto* tokens = reorder(graph, convolve(graph, linear, x, residual, image), result->value);
    graph.replace_all_uses(result, tokens);
    graph.erase_unused(product);
    return true;
}

}  // namespace

int convolve_tokens(Model& model, PassContext const&) {
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        if (!node->alive()) continue;
        auto const* info = info_of<kernel::ReorderInfo>(*node->value.op);
        if (!info || !info->channels_last || node->output()->value.dtype != DataType::F32) continue;
        bool to_blocked = node->input(0)->value.layout == Layout::Plain;
        changes += to_blocked ? convolve_before(model.graph, node) : convolve_behind(model.graph, node);
    }
    return changes;
}

}  // namespace refactor::computation
