#include "passes/widen_halves.h"

#include "kernel/ops/conv.h"
#include "kernel/ops/matmul.h"
#include "passes/expression.h"

namespace refactor::computation {

namespace {

bool is_half(DataType type) { return type == DataType::F16 || type == DataType::BF16; }

template <class... Infos>
bool is_any_of(Operator const& op) {
    return (info_of<Infos>(op) || ...);
}

EdgePtr cast(Graph& graph, EdgePtr edge, DataType type) {
    auto expression = make_expression(kernel::ExprOp::Cast, type, {edge});
    auto value = edge->value;
    value.name += "/" + std::string(name_of(type)), value.dtype = type;
    value.constant = nullptr, value.keep = false;
    auto* node =
        graph.insert({value.name, make_operator(kernel::ElementwiseInfo{expression.code, expression.outputs})}, {edge});
    node->output()->value = std::move(value);
    return node->output();
}

bool widen(Graph& graph, NodePtr node) {
    using namespace kernel;
    if (!is_any_of<MatMulInfo, AttentionInfo, ConvInfo, ConvTransposeInfo, PoolInfo, GlobalPoolInfo>(*node->value.op))
        return false;
    auto type = node->output(0)->value.dtype;
    if (!is_half(type)) return false;
    std::vector<EdgePtr> inputs;
    for (auto* edge : node->inputs())
        inputs.push_back(edge && is_half(edge->value.dtype) ? cast(graph, edge, DataType::F32) : edge);
    auto* made = graph.insert({node->value.name, node->value.op}, inputs, node->outputs().size());
    for (size_t i = 0; i < node->outputs().size(); ++i) {
        auto *from = node->output(i), *to = made->output(i);
        to->value = from->value;
        if (is_half(from->value.dtype)) {
            to->value.dtype = DataType::F32, to->value.keep = false;
            to->value.name += "/f32";
            to = cast(graph, to, from->value.dtype);
            to->value = from->value;
        }
        graph.replace_all_uses(from, to);
    }
    graph.erase(node);
    return true;
}

}  // namespace

int widen_halves(Model& model, PassContext const& context) {
    if (context.options.device != "cpu") return 0;
    int changes = 0;
    for (auto* node : model.graph.topological()) changes += widen(model.graph, node);
    return changes;
}

}  // namespace refactor::computation
