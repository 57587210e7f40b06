#include "passes/fold_constants.h"

#include "computation/evaluate.h"
#include "kernel/ops/quantize.h"

namespace refactor::computation {

namespace {

/// Results up to this size are always worth keeping as data.
constexpr int64_t kSmall = 16 << 20;

std::optional<Dims> constant_dims(Shape const& shape) {
    Dims dims;
    for (auto const& size : shape) {
        auto value = size.constant();
        if (!value || *value < 0) return std::nullopt;
        dims.push_back(*value);
    }
    return dims;
}

std::optional<std::vector<Constant>> known_inputs(NodePtr node) {
    std::vector<Constant> inputs;
    for (auto* edge : node->inputs()) {
        auto& constant = inputs.emplace_back();
        if (!edge) continue;
        auto dims = constant_dims(edge->value.shape);
        if (!edge->value.constant || !dims) return std::nullopt;
        constant = {edge->value.dtype, *dims, edge->value.constant};
    }
    return inputs;
}

std::optional<std::vector<Constant>> result_of(NodePtr node) {
    auto inputs = known_inputs(node);
    if (!inputs) return std::nullopt;
    std::vector<int64_t> params;
    for (auto const& param : node->value.op->params()) {
        auto value = param.constant();
        if (!value) return std::nullopt;
        params.push_back(*value);
    }
    std::vector<Constant> outputs;
    int64_t read = 0, written = 0;
    for (auto const& input : *inputs)
        read += static_cast<int64_t>(storage_bytes(input.dtype, element_count(input.dims)));
    for (auto* edge : node->outputs()) {
        auto dims = constant_dims(edge->value.shape);
        if (!dims || edge->value.dtype == DataType::String) return std::nullopt;
        outputs.push_back({edge->value.dtype, *dims, nullptr});
        written += static_cast<int64_t>(storage_bytes(edge->value.dtype, element_count(*dims)));
    }
    // What was packed on purpose has become weights that every run would unpack again.
    bool unpacks = info_of<kernel::DequantizeInfo>(*node->value.op);
    if (written > kSmall && written > 4 * read && !unpacks) return std::nullopt;
    auto result = evaluate(node->value.op, *inputs, std::move(outputs), params);
    if (!result) return std::nullopt;
    return std::move(result).value();
}

}  // namespace

bool fold_constant(Graph& graph, NodePtr node) {
    auto result = result_of(node);
    if (!result) return false;
    for (size_t i = 0; i < result->size(); ++i) {
        auto* edge = node->output(i);
        if (edge->use_count() == 0) continue;
        auto value = edge->value;
        value.constant = (*result)[i].blob;
        graph.replace_all_uses(edge, graph.add_source(std::move(value)));
    }
    graph.erase(node);
    return true;
}

int fold_constants(Model& model, PassContext const&) {
    int folded = 0;
    for (auto* node : model.graph.topological()) folded += fold_constant(model.graph, node);
    return folded;
}

}  // namespace refactor::computation
