#include "passes/fuse_attention.h"

#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "passes/attention_heads.h"
#include "passes/attention_scores.h"
#include "passes/attention_windows.h"
#include "passes/edges.h"

namespace refactor::computation {

using kernel::ExprOp;

namespace {

bool is_plain_product(kernel::MatMulInfo const& info) { return !info.trans_a && info.epilogue == kernel::Epilogue{}; }

/// `node` computes where(isnan(x), 0, x) of its only input.
bool is_nan_to_zero(NodePtr node) {
    if (!info_of<kernel::ElementwiseInfo>(*node->value.op)) return false;
    auto expression = Expression::of(node);
    expression.normalize();
    if (expression.inputs.size() != 1 || expression.outputs.size() != 1) return false;
    auto const& last = expression.code[expression.outputs[0]];
    if (last.op != ExprOp::Where) return false;
    auto const& test = expression.code[last.operands[0]];
    return test.op == ExprOp::IsNan && expression.input(test.operands[0]) &&
           expression.constant(last.operands[1]) == 0 && expression.input(last.operands[2]);
}

/// K laid out as [B, H, T, D], if `edge` is [B, H, D, T] only because of a transpose that can be changed.
EdgePtr untransposed_keys(Graph& graph, EdgePtr edge) {
    auto const* transpose = producer_info<kernel::TransposeInfo>(edge);
    if (!transpose || transpose->perm.size() < 3 || !is_private(edge)) return nullptr;
    auto perm = transpose->perm;
    auto rank = perm.size();
    std::swap(perm[rank - 2], perm[rank - 1]);
    auto* source = edge->producer()->input(0);
    bool same = true;
    for (size_t i = 0; i < rank; ++i) same = same && perm[i] == static_cast<int64_t>(i);
    if (same) return source;
    auto value = edge->value;
    std::swap(value.shape[rank - 2], value.shape[rank - 1]);
    value.name += ".rows";
    auto* node = graph.insert({edge->producer()->value.name, make_operator(kernel::TransposeInfo{perm})}, {source});
    node->output()->value = std::move(value);
    return node->output();
}

/// Makes `keys`, [B, H, D, T], such a K of its heads, if it can.
bool untranspose(Graph& graph, Heads const& heads, EdgePtr& keys) {
    auto* rows = untransposed_keys(graph, keys);
    if (!rows) rows = untransposed_keys(graph, heads.before_apart(keys));
    if (!rows) rows = untransposed_keys(graph, keys = heads.apart(keys));
    if (rows) keys = rows;
    return rows != nullptr;
}

/// [B, shared, T, D] of which every head is repeated to make `edge`, [B, H, T, D]; null if it is made otherwise.
EdgePtr unrepeated(Heads const& heads, EdgePtr edge) {
    auto const& all = edge->value.shape;
    auto* repeated = edge;
    while (repeated->producer() && repeated->producer()->value.op->is_alias())
        repeated = repeated->producer()->input(0);
    if (!producer_info<kernel::ExpandInfo>(repeated)) return nullptr;
    auto* source = repeated->producer()->input(0);
    auto const &from = source->value.shape, &to = repeated->value.shape;
    // Heads in groups, [B, shared, 1, T, D], or one for all, [B, 1, T, D].
    auto repeats = to.size() == 5 ? size_t{2} : size_t{1};
    if (to.size() < 4 || from.size() != to.size() || to[0] != all[0] || from[repeats] != DimExpr(1)) return nullptr;
    for (size_t i = 0; i < to.size(); ++i)
        if (i != repeats && from[i] != to[i]) return nullptr;
    for (size_t i = 1; i <= 2; ++i)
        if (to[to.size() - i] != all[4 - i]) return nullptr;
    if ((to.size() == 5 ? to[1] * to[2] : to[1]) != all[1]) return nullptr;
    return to.size() == 5 ? heads.reshaped(source, {from[0], from[1], from[3], from[4]}) : source;
}

/// Lets queries share the heads of K and V that are there, if both have as many.
void share_heads(Heads const& heads, EdgePtr& keys, EdgePtr& values) {
    auto *k = unrepeated(heads, keys), *v = unrepeated(heads, values);
    if (k && v && k->value.shape[1] == v->value.shape[1]) keys = k, values = v;
}

/// Puts the result [B, H, S, D] in the place of what `product` made of it, which may have had B and H merged.
void replace(Graph& graph, NodePtr product, NodePtr attention, Heads const& heads) {
    auto* old = product->output();
    attention->output()->value = old->value;
    auto const shape = heads.shape_of(old->value.shape);
    if (old->value.shape == shape) {
        graph.replace_all_uses(old, attention->output());
        return;
    }
    attention->output()->value = {attention->value.name + ".heads", old->value.dtype, shape, {}, nullptr, false};
    if (auto* next = is_private(old) ? old->only_consumer() : nullptr;
        next && next->value.op->is_alias() && next->output()->value.shape == shape) {
        attention->output()->value = next->output()->value;
        graph.replace_all_uses(next->output(), attention->output());
        graph.erase_unused(next);
        return;
    }
    auto* merged = heads.reshaped(attention->output(), old->value.shape);
    merged->value = old->value;
    graph.replace_all_uses(old, merged);
}

/// The product of what a softmax makes with the values.
struct Weighting {
    NodePtr product = nullptr;  ///< null: there is none
    EdgePtr weights = nullptr;
    bool nan_to_zero = false;
};

Weighting weighting_of(NodePtr softmax, bool nan_to_zero) {
    auto* weights = softmax->output();
    if (auto* next = weights->only_consumer(); next && is_nan_to_zero(next)) {
        weights = next->output(), nan_to_zero = true;
        if (!is_private(weights)) return {};
    }
    auto* product = weights->only_consumer();
    if (product && product->value.op->is_alias() && is_private(product->output()))
        weights = product->output(), product = weights->only_consumer();
    auto const* info = product ? info_of<kernel::MatMulInfo>(*product->value.op) : nullptr;
    if (!info || !is_plain_product(*info) || info->trans_b || info->alpha != 1 || product->input(0) != weights)
        return {};
    return {product, weights, nan_to_zero};
}

/// A softmax over the last of 3 or 4 axes, of a type that has a kernel.
bool is_softmax_of_scores(NodePtr node, bool halves) {
    auto const* info = info_of<kernel::SoftmaxInfo>(*node->value.op);
    if (!info || !is_private(node->output())) return false;
    auto type = node->output()->value.dtype;
    auto rank = node->output()->value.shape.size();
    bool has_kernel = type == DataType::F32 || (halves && (type == DataType::F16 || type == DataType::BF16));
    return has_kernel && !info->log && info->axes == 1 && (rank == 3 || rank == 4) &&
           info->axis == static_cast<int64_t>(rank) - 1;
}

/// `made` with as many keys as there are, where a mask gave it those that it broadcasts them to.
Shape with_keys(Shape made, DimExpr const& keys) {
    if (broadcast(made.back(), keys) == made.back()) made.back() = keys;
    return made;
}

bool fuse(Model& model, NodePtr softmax, bool on_cpu) {
    // On the CPU, products of halves are computed in f32 before this pass.
    if (!is_softmax_of_scores(softmax, !on_cpu)) return false;
    auto& graph = model.graph;
    auto const& shape = softmax->output()->value.shape;
    auto scores = scores_of(softmax->input(0));
    if (!scores) return false;
    auto* first = scores->product->producer();
    auto const* first_info = info_of<kernel::MatMulInfo>(*first->value.op);
    if (!is_plain_product(*first_info)) return false;
    auto const second = weighting_of(softmax, info_of<kernel::SoftmaxInfo>(*softmax->value.op)->nan_to_zero);
    if (!second.product) return false;
    auto* values = second.product->input(1);
    kernel::AttentionInfo attention;
    attention.scale = scores->scale * first_info->alpha, attention.softcap = scores->softcap;
    auto *queries = strip_scale(first->input(0), attention.scale),
         *keys = strip_scale(first->input(1), attention.scale);
    auto const key_count = scores->shape.back();
    auto const all = scores->shape.size() == 4 ? scores->shape : with_keys(shape, key_count);
    Heads heads(graph, all, queries);
    auto const shared = heads.of_keys(keys);
    auto const apart = heads.shape_of(all), merged = Shape{apart[0] * apart[1], apart[2], apart[3]};
    auto fits = [&](Shape const& made) {
        auto const whole = with_keys(made, key_count);
        return whole == apart || whole == merged;
    };
    bool windows = are_windows(scores->shape, apart);
    if (!fits(shape) || !(fits(scores->shape) || windows) || !fits(scores->product->value.shape) ||
        !fits(second.weights->value.shape) || !heads.fit(queries) || !shared.fit(keys) || !shared.fit(values))
        return false;
    if (!scores->factors.outputs.empty() && !scores->are_factors_of(queries)) return false;
    if (shape.back() != key_count && values->value.shape[values->value.shape.size() - 2] != key_count) return false;
    attention.mask_repeats = on_cpu && scores->shape.size() == 4 && take_one_image(heads, scores->mask);
    auto* mask = scores->mask_edge(graph, softmax->value.name + ".mask");
    if (mask && scores->shape.size() == 3 && mask->value.shape.size() == 3 && mask->value.shape[0] != DimExpr(1)) {
        if (!heads.fit(mask)) return false;
        mask = heads.apart(mask);
    }
    if (mask && windows) {
        mask = mask_of_windows(heads, mask, scores->shape, attention.mask_repeats);
        if (!mask || (attention.mask_repeats && !on_cpu)) return false;
    }
    if (!scores->factors.outputs.empty()) queries = scores->multiplied(queries, graph);
    attention.has_mask = mask != nullptr;
    attention.nan_to_zero = second.nan_to_zero, attention.hidden = scores->hidden;
    attention.k_transposed = !first_info->trans_b && !untranspose(graph, shared, keys);
    if (shape.back() != key_count)
        model.conditions.push_back({"Softmax node \"" + softmax->value.name + "\"", "the number of keys in the mask",
                                    mask->value.shape.back(), key_count, true});

    std::vector<EdgePtr> inputs{heads.apart(queries), shared.apart(keys), shared.apart(values)};
    if (!attention.k_transposed) share_heads(heads, inputs[1], inputs[2]);
    if (mask) inputs.push_back(mask);
    auto* node = graph.insert({softmax->value.name, make_operator(attention)}, inputs);
    replace(graph, second.product, node, heads);
    graph.erase_unused(second.product);
    return true;
}

}  // namespace

int fuse_attention(Model& model, PassContext const& context) {
    int fused = 0;
    for (auto* node : model.graph.topological())
        fused += node->alive() && fuse(model, node, context.options.device == "cpu");
    return fused;
}

}  // namespace refactor::computation
