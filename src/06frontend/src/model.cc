#include "frontend/model.h"

#include "common/error.h"
#include "lowering.h"

#include <algorithm>
#include <set>

namespace refactor::frontend {

namespace {

std::string quoted_list(std::vector<std::string> const& names) {
    std::string text;
    for (auto const& name : names) text += concat(text.empty() ? "\"" : ", \"", name, "\"");
    return text.empty() ? "none" : text;
}

}  // namespace

Model::Model(Graph graph, SymbolTable symbols, Problems earlier)
    : graph_(std::move(graph)), symbols_(std::move(symbols)) {
    auto problems = std::move(earlier);
    tensors_ = infer(graph_, inputs_of_graph(), symbols_, problems);
    problems.raise();
}

std::vector<Tensor> Model::inputs_of_graph() const {
    auto const& tensors = tensors_.empty() ? graph_.tensors : tensors_;
    std::vector<Tensor> inputs;
    for (auto edge : graph_.topo.global_inputs()) inputs.push_back(tensors[edge]);
    return inputs;
}

std::vector<Tensor> Model::inputs() const { return inputs_of_graph(); }

std::vector<Tensor> Model::outputs() const {
    std::vector<Tensor> outputs;
    for (auto edge : graph_.topo.global_outputs()) outputs.push_back(tensors_[edge]);
    return outputs;
}

std::vector<std::string> Model::variables() const {
    std::set<SymbolId> used;
    for (auto const& input : inputs())
        for (auto const& size : input.shape.value_or(Shape{}))
            for (auto symbol : size.symbols()) used.insert(symbol);
    std::vector<std::string> names;
    for (auto symbol : used) names.push_back(symbols_.name(symbol));
    return names;
}

std::vector<std::string> Model::unranked_inputs() const {
    std::vector<std::string> names;
    for (auto const& input : inputs())
        if (!input.shape) names.push_back(input.name);
    return names;
}

void Model::infer_again(std::vector<Tensor> inputs, bool refined) {
    Problems problems;
    auto symbols = symbols_;
    auto tensors = infer(graph_, std::move(inputs), symbols, problems, refined ? tensors_ : std::span<Tensor const>());
    problems.raise();
    tensors_ = std::move(tensors), symbols_ = std::move(symbols);
}

void Model::substitute(std::string_view symbol, int64_t value) {
    auto known = variables();
    if (std::find(known.begin(), known.end(), symbol) == known.end())
        throw InvalidInput(concat("the model has no variable \"", symbol, "\"; it has ", quoted_list(known)));
    if (value < 0) throw InvalidInput(concat("the size ", value, " for \"", symbol, "\" is negative"));
    Bindings bindings(symbols_.size(), kUnbound);
    bindings[*symbols_.find(symbol)] = value;
    auto inputs = inputs_of_graph();
    for (auto& input : inputs)
        if (input.shape)
            for (auto& size : *input.shape) size = size.substitute(bindings);
    infer_again(std::move(inputs), true);
}

void Model::set_input_shape(std::string_view name, Shape shape) {
    auto inputs = inputs_of_graph();
    auto input = std::find_if(inputs.begin(), inputs.end(), [&](Tensor const& i) { return i.name == name; });
    if (input == inputs.end()) throw InvalidInput(concat("the model has no input \"", name, "\""));
    for (auto const& size : shape)
        if (size.constant().value_or(0) < 0)
            throw InvalidInput(concat("the sizes of \"", name, "\" cannot be negative: ", to_string(shape, symbols_)));
    input->shape = std::move(shape);
    infer_again(std::move(inputs), false);
}

computation::Model Model::lower() const {
    if (auto names = unranked_inputs(); !names.empty())
        throw InvalidInput(concat("the sizes of these inputs must be set first: ", quoted_list(names)));
    Problems problems;
    computation::Model model;
    model.graph = frontend::lower(graph_, tensors_, symbols_, problems);
    for (auto edge : graph_.topo.global_outputs()) model.output_names.push_back(tensors_[edge].name);
    problems.raise();
    ensure(model.graph.outputs().size() == model.output_names.size(), "an output has not been lowered");
    model.symbols = symbols_;
    return model;
}

}  // namespace refactor::frontend
