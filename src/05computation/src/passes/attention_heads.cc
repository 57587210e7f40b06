#include "passes/attention_heads.h"

namespace refactor::computation {

bool Heads::are_merged(EdgePtr edge) const {
    return edge->value.shape.size() == 3 && edge->value.shape[0] == batch_ * heads_;
}

Heads::Heads(Graph& graph, Shape const& scores, EdgePtr queries) : graph_(graph), batch_(scores[0]), heads_(1) {
    if (scores.size() == 4) {
        heads_ = scores[1];
        return;
    }
    auto const* before = queries->producer();
    if (!before || !before->value.op->is_alias()) return;
    auto const& shape = before->input(0)->value.shape;
    if (shape.size() == 4 && shape[0] * shape[1] == batch_) batch_ = shape[0], heads_ = shape[1];
}

Heads Heads::of_keys(EdgePtr keys) const {
    auto heads = *this;
    if (keys->value.shape.size() == 4 && keys->value.shape[1] == DimExpr(1)) heads.heads_ = 1;
    return heads;
}

bool Heads::fit(EdgePtr edge) const {
    auto const& shape = edge->value.shape;
    return are_merged(edge) || (shape.size() == 4 && shape[0] == batch_ && shape[1] == heads_);
}

Shape Heads::shape_of(Shape const& matrices) const {
    return {batch_, heads_, matrices[matrices.size() - 2], matrices.back()};
}

EdgePtr Heads::apart(EdgePtr edge) const {
    if (!are_merged(edge)) return edge;
    auto shape = shape_of(edge->value.shape);
    auto* producer = edge->producer();
    if (producer && producer->value.op->is_alias() && producer->input(0)->value.shape == shape)
        return producer->input(0);
    return reshaped(edge, shape);
}

EdgePtr Heads::before_apart(EdgePtr edge) const {
    auto* producer = edge->producer();
    bool apart = producer && producer->value.op->is_alias() && is_private(edge) && are_merged(producer->input(0));
    return apart ? producer->input(0) : edge;
}

EdgePtr Heads::reshaped(EdgePtr edge, Shape const& shape) const {
    auto name = edge->value.name + ".heads";
    auto* node = graph_.insert({name, std::make_shared<Reshape>()}, {edge});
    node->output()->value = {name, edge->value.dtype, shape, {}, nullptr, false};
    return node->output();
}

}  // namespace refactor::computation
