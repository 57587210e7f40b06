#include "passes/any_float.h"

#include "ask_kernels.h"
#include "passes/expression.h"

#include <set>

namespace refactor::computation {

bool takes_any_float(Operator const& op) {
    static std::set<std::string_view> const kTypes = {
        "Attention", "BlockMatMul", "Conv", "ConvTranspose", "GlobalPool", "GroupNorm", "LayerNorm", "LinearAttention",
        "Lrn",       "MatMul",      "Pool", "Recurrent",     "Reduce",     "Resize",    "Softmax"};
    return only_moves(op) || kTypes.contains(op.type());
}

bool only_moves(Operator const& op) {
    static std::set<std::string_view> const kTypes = {"Concat",         "Copy",      "Expand", "Gather",
                                                      "GatherElements", "GatherND",  "Pad",    "Slice",
                                                      "Split",          "Transpose", "Trilu"};
    return op.is_alias() || kTypes.contains(op.type());
}

bool accepts_as(NodePtr node, DataType type, std::function<bool(EdgePtr)> const& changes, PassContext const& context,
                mem_manager::Device* place) {
    std::vector<std::pair<EdgePtr, Edge>> former;
    auto change = [&](EdgePtr edge) {
        if (!edge || edge->value.dtype == type || !changes(edge)) return;
        former.emplace_back(edge, edge->value);
        edge->value.dtype = type;
        edge->value.constant = nullptr;
    };
    for (auto* edge : node->inputs()) change(edge);
    for (auto* edge : node->outputs()) change(edge);
    auto answer = ask_kernels(node, context, place ? context.options.device : "cpu", place);
    for (auto it = former.rbegin(); it != former.rend(); ++it) it->first->value = std::move(it->second);
    return !answer.kernels.empty();
}

EdgePtr insert_cast(Graph& graph, EdgePtr edge, DataType type) {
    auto expression = make_expression(kernel::ExprOp::Cast, type, {edge});
    auto value = edge->value;
    value.name += "/" + std::string(name_of(type)), value.dtype = type, value.constant = nullptr, value.keep = false;
    auto info = kernel::ElementwiseInfo{expression.code, expression.outputs};
    auto* node = graph.insert({value.name, make_operator(std::move(info))}, {edge});
    node->output()->value = std::move(value);
    return node->output();
}

}  // namespace refactor::computation
