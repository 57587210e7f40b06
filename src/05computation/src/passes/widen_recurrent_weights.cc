#include "passes/widen_recurrent_weights.h"

#include "kernel/ops/movement.h"
#include "kernel/ops/recurrent.h"
#include "passes/expression.h"

namespace refactor::computation {

namespace {

using kernel::ExprOp;

/// [D, K, G·H] of bytes, with scale and zero point of one element, [D] or [D, G·H], as f32 [D, G·H, K].
EdgePtr widened(Graph& graph, NodePtr node, EdgePtr weights, EdgePtr scale, EdgePtr zero) {
    auto const shape = weights->value.shape;
    auto made = [&](NodePtr by, DataType type, Shape dims) {
        by->output()->value = {by->value.name, type, std::move(dims), {}, nullptr, false};
        return by->output();
    };
    auto name = node->value.name + "/" + weights->value.name;
    auto between = [&](EdgePtr edge) {
        Shape dims{DimExpr(1), DimExpr(1), DimExpr(1)};
        if (edge->value.shape.size() == 2)
            dims = {edge->value.shape[0], DimExpr(1), edge->value.shape[1]};
        else if (edge->value.shape.size() == 1)
            dims[0] = edge->value.shape[0];
        auto* reshape = graph.insert({name + "/" + edge->value.name, std::make_shared<Reshape>()}, {edge});
        return made(reshape, edge->value.dtype, std::move(dims));
    };
    Expression e;
    e.inputs = {weights, between(zero), between(scale)};
    auto load = [&](uint16_t i) {
        auto type = e.inputs[i]->value.dtype;
        auto x = e.append({.op = ExprOp::Input, .dtype = type, .operands = {i}});
        return type == DataType::F32 ? x : e.append({.op = ExprOp::Cast, .dtype = DataType::F32, .operands = {x}});
    };
    auto w = load(0), z = load(1), s = load(2);
    auto centred = e.append({.op = ExprOp::Sub, .dtype = DataType::F32, .operands = {w, z}});
    e.outputs = {e.append({.op = ExprOp::Mul, .dtype = DataType::F32, .operands = {centred, s}})};
    auto* scaled = graph.insert({name + "/scaled", make_operator(kernel::ElementwiseInfo{})}, {weights});
    made(scaled, DataType::F32, shape);
    e.store(graph, scaled);
    auto* transpose =
        graph.insert({name + "/f32", make_operator(kernel::TransposeInfo{Dims{0, 2, 1}})}, {scaled->output()});
    return made(transpose, DataType::F32, {shape[0], shape[2], shape[1]});
}

}  // namespace

int widen_recurrent_weights(Model& model, PassContext const& context) {
    int changes = 0;
    for (auto* node : model.graph.topological()) {
        auto const* info = info_of<kernel::RecurrentInfo>(*node->value.op);
        if (!info || !info->quantized) continue;
        auto *w = node->input(1), *r = node->input(2);
        if (context.options.device == "cpu" && w->value.constant && r->value.constant) continue;
        std::vector<EdgePtr> inputs(node->inputs().begin(), node->inputs().end());
        auto terms = inputs.size() - 4;
        inputs[1] = widened(model.graph, node, w, inputs[terms], inputs[terms + 1]);
        inputs[2] = widened(model.graph, node, r, inputs[terms + 2], inputs[terms + 3]);
        inputs.resize(terms);
        auto wide = *info;
        wide.quantized = false;
        auto outputs = std::vector<EdgePtr>(node->outputs().begin(), node->outputs().end());
        auto* made = model.graph.insert({node->value.name, make_operator(std::move(wide))}, inputs, outputs.size());
        for (size_t i = 0; i < outputs.size(); ++i) {
            made->output(i)->value = outputs[i]->value;
            model.graph.replace_all_uses(outputs[i], made->output(i));
        }
        model.graph.erase_unused(node);
        ++changes;
    }
    return changes;
}

}  // namespace refactor::computation
