#include "passes/insert_step.h"

namespace refactor::computation {

EdgePtr insert_step(Graph& graph, EdgePtr like, std::string_view what, std::shared_ptr<Operator const> op,
                    std::vector<EdgePtr> const& inputs, Shape shape) {
    auto value = like->value;
    value.name.append(".").append(what);
    value.shape = std::move(shape), value.constant = nullptr, value.keep = false;
    auto* node = graph.insert({value.name, std::move(op)}, inputs);
    node->output()->value = std::move(value);
    return node->output();
}

}  // namespace refactor::computation
