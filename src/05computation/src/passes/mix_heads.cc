#include "passes/mix_heads.h"

#include "kernel/ops/elementwise.h"
#include "kernel/ops/matmul.h"
#include "kernel/ops/movement.h"
#include "passes/expression.h"

namespace refactor::computation {

namespace {

/// Of so many, a product where they are still takes half of the time of one with transposes.
constexpr int64_t kMostHeads = 16;

EdgePtr emit(Graph& graph, std::vector<EdgePtr> const& from, std::string name, std::shared_ptr<Operator const> op,
             Shape shape) {
    auto* node = graph.insert({name, std::move(op)}, from);
    node->output()->value = {std::move(name), DataType::F32, std::move(shape), {}, nullptr, false};
    return node->output();
}

/// The axis of the source that `edge`, otherwise in the source's order, has last.
std::optional<size_t> brought_last(EdgePtr edge) {
    auto const* transpose = producer_info<kernel::TransposeInfo>(edge);
    if (!transpose || edge->producer()->input(0)->value.dtype != DataType::F32) return std::nullopt;
    auto const& perm = transpose->perm;
    if (perm.size() < 2) return std::nullopt;
    auto axis = static_cast<size_t>(perm.back());
    for (size_t i = 0; i + 1 < perm.size(); ++i)
        if (perm[i] != static_cast<int64_t>(i < axis ? i : i + 1)) return std::nullopt;
    return axis + 1 < perm.size() ? std::optional(axis) : std::nullopt;
}

/// The Transpose that alone reads `edge` and takes its last axis back to `axis`; null: there is none.
NodePtr taken_back(EdgePtr edge, size_t axis) {
    auto* node = edge->only_consumer();
    auto const* transpose = node && !edge->value.keep ? info_of<kernel::TransposeInfo>(*node->value.op) : nullptr;
    if (!transpose || node->output()->value.dtype != DataType::F32) return nullptr;
    auto const last = transpose->perm.size() - 1;
    for (size_t i = 0; i <= last; ++i) {
        auto expected = i < axis ? i : i == axis ? last : i - 1;
        if (transpose->perm[i] != static_cast<int64_t>(expected)) return nullptr;
    }
    return node;
}

bool are_few(EdgePtr weights) {
    auto const& shape = weights->value.shape;
    if (!weights->value.constant || weights->value.dtype != DataType::F32 || shape.size() != 2) return false;
    auto rows = shape[0].constant(), columns = shape[1].constant();
    return rows && columns && *rows <= kMostHeads && *columns <= kMostHeads;
}

/// [..., C, positions] of [..., C, d1, d2, ...].
Shape with_positions(Shape const& shape, size_t axis) {
    Shape result(shape.begin(), shape.begin() + static_cast<int64_t>(axis) + 1);
    DimExpr positions(1);
    for (size_t i = axis + 1; i < shape.size(); ++i) positions = positions * shape[i];
    result.push_back(positions);
    return result;
}

/// A bias of `count` channels for `shape`, whose channels are `axis`.
EdgePtr add_bias(Graph& graph, EdgePtr to, EdgePtr bias, size_t axis, std::string const& name) {
    auto const& shape = to->value.shape;
    if (bias->value.shape.size() == 1 && bias->value.shape[0] == shape[axis]) {
        Shape column(shape.size() - axis, DimExpr(1));
        column[0] = shape[axis];
        bias = emit(graph, {bias}, bias->value.name + ".column", std::make_shared<Reshape>(), column);
    }
    auto sum = make_expression(kernel::ExprOp::Add, DataType::F32, {to, bias});
    return emit(graph, sum.inputs, name, make_operator(kernel::ElementwiseInfo{sum.code, sum.outputs}), shape);
}

bool mix(Graph& graph, NodePtr node) {
    auto info = *info_of<kernel::MatMulInfo>(*node->value.op);
    auto const& after = info.epilogue;
    if (info.trans_a || info.scaled || after.residual || after.activation != kernel::Activation{}) return false;
    auto *rows = node->input(0), *weights = node->input(1);
    auto axis = brought_last(rows);
    if (!axis || !are_few(weights) || node->output()->is_output()) return false;
    auto* back = taken_back(node->output(), *axis);
    if (!back) return false;
    auto const name = node->value.name;
    auto const& w = weights->value;
    if (!info.trans_b)
        weights = emit(graph, {weights}, w.name + ".heads", make_operator(kernel::TransposeInfo{{1, 0}}),
                       {w.shape[1], w.shape[0]});
    auto* source = rows->producer()->input(0);
    auto* heads =
        emit(graph, {source}, name + ".heads", std::make_shared<Reshape>(), with_positions(source->value.shape, *axis));
    auto const shape = back->output()->value.shape;
    kernel::MatMulInfo product;
    product.alpha = info.alpha;
    auto* mixed = emit(graph, {weights, heads}, name, make_operator(product), with_positions(shape, *axis));
    mixed = emit(graph, {mixed}, name + ".reshape", std::make_shared<Reshape>(), shape);
    if (after.bias) mixed = add_bias(graph, mixed, node->input(2), *axis, name + ".bias");
    mixed->value = back->output()->value;
    graph.replace_all_uses(back->output(), mixed);
    graph.erase_unused(back);
    return true;
}

}  // namespace

int mix_heads(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological())
        if (node->alive() && info_of<kernel::MatMulInfo>(*node->value.op)) changes += mix(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
