#include "passes/fuse_attention.h"

#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "kernel/ops/reduce.h"
#include "passes/attention_scores.h"

namespace refactor::computation {

using kernel::ExprOp;

namespace {

bool is_plain_product(kernel::MatMulInfo const& info) { return !info.trans_a && info.epilogue == kernel::Epilogue{}; }

bool is_private(EdgePtr edge) { return edge->only_consumer() && !edge->value.keep; }

/// `edge` is `factor` times what is returned, through Elementwise nodes that only multiply by a scalar.
EdgePtr strip_scale(EdgePtr edge, float& factor) {
    auto* node = edge->producer();
    if (!node || !is_private(edge) || !info_of<kernel::ElementwiseInfo>(*node->value.op)) return edge;
    auto expression = Expression::of(node);
    expression.normalize();
    if (expression.outputs.size() != 1 || expression.inputs.size() != 1) return edge;
    auto const& last = expression.code[expression.outputs[0]];
    if (last.op != ExprOp::Mul && last.op != ExprOp::Div) return edge;
    auto* x = expression.input(last.operands[0]);
    auto scale = expression.constant(last.operands[1]);
    if (last.op == ExprOp::Mul && !x)
        x = expression.input(last.operands[1]), scale = expression.constant(last.operands[0]);
    if (!x || !scale || x->value.shape != edge->value.shape) return edge;
    factor *= static_cast<float>(last.op == ExprOp::Mul ? *scale : 1 / *scale);
    return x;
}

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
    if (!transpose || transpose->perm.size() != 4 || !is_private(edge)) return nullptr;
    auto perm = transpose->perm;
    std::swap(perm[2], perm[3]);
    auto* source = edge->producer()->input(0);
    if (perm == Dims{0, 1, 2, 3}) return source;
    auto value = edge->value;
    std::swap(value.shape[2], value.shape[3]);
    value.name += ".rows";
    auto* node = graph.insert({edge->producer()->value.name, make_operator(kernel::TransposeInfo{perm})}, {source});
    node->output()->value = std::move(value);
    return node->output();
}

bool fuse(Graph& graph, NodePtr softmax, bool halves) {
    auto const* info = info_of<kernel::SoftmaxInfo>(*softmax->value.op);
    auto const& shape = softmax->output()->value.shape;
    auto type = softmax->output()->value.dtype;
    bool has_kernel = type == DataType::F32 || (halves && (type == DataType::F16 || type == DataType::BF16));
    if (!info || info->log || info->axes != 1 || info->axis != 3 || shape.size() != 4 || !has_kernel ||
        !is_private(softmax->output()))
        return false;
    auto scores = scores_of(softmax->input(0));
    if (!scores) return false;
    auto* first = scores->product->producer();
    auto const* first_info = info_of<kernel::MatMulInfo>(*first->value.op);
    if (!is_plain_product(*first_info)) return false;

    auto* probabilities = softmax->output();
    bool nan_to_zero = info->nan_to_zero;
    if (auto* next = probabilities->only_consumer(); next && is_nan_to_zero(next)) {
        probabilities = next->output(), nan_to_zero = true;
        if (!is_private(probabilities)) return false;
    }
    auto* second = probabilities->only_consumer();
    auto const* second_info = second ? info_of<kernel::MatMulInfo>(*second->value.op) : nullptr;
    if (!second_info || !is_plain_product(*second_info) || second_info->trans_b || second_info->alpha != 1 ||
        second->input(0) != probabilities)
        return false;
    auto* values = second->input(1);
    kernel::AttentionInfo attention;
    attention.scale = scores->scale * first_info->alpha;
    auto *queries = strip_scale(first->input(0), attention.scale),
         *keys = strip_scale(first->input(1), attention.scale);
    auto batched = [&](EdgePtr edge) {
        auto const& s = edge->value.shape;
        return s.size() == 4 && s[0] == shape[0] && s[1] == shape[1];
    };
    if (!batched(queries) || !batched(keys) || !batched(values)) return false;
    auto* mask = scores->mask_edge(graph, softmax->value.name + ".mask");
    attention.has_mask = mask != nullptr;
    attention.nan_to_zero = nan_to_zero;
    attention.k_transposed = !first_info->trans_b;
    if (attention.k_transposed)
        if (auto* rows = untransposed_keys(graph, keys)) keys = rows, attention.k_transposed = false;

    std::vector<EdgePtr> inputs{queries, keys, values};
    if (mask) inputs.push_back(mask);
    auto* node = graph.insert({softmax->value.name, make_operator(attention)}, inputs);
    node->output()->value = second->output()->value;
    graph.replace_all_uses(second->output(), node->output());
    graph.erase_unused(second);
    return true;
}

}  // namespace

int fuse_attention(Model& model, PassContext const& context) {
    // On the CPU, products of halves are computed in f32 before this pass.
    bool halves = context.options.device != "cpu";
    int fused = 0;
    for (auto* node : model.graph.topological()) fused += fuse(model.graph, node, halves);
    return fused;
}

}  // namespace refactor::computation
