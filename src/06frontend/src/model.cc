#include "frontend/model.h"

#include "common/error.h"
#include "frontend/operator.h"
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

bool is_number(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void add_names(Graph const& graph, std::set<std::string>& names) {
    for (auto const& node : graph.nodes) {
        names.insert(node.name);
        if (!node.op) continue;
        for (auto const* inner : node.op->graphs()) add_names(*inner, names);
    }
}

/// Whether lowering a node with one of these names makes an operator with that of `part`.
bool is_part(std::string const& part, std::set<std::string> const& names) {
    auto slash = part.rfind('/');
    return slash != std::string::npos && is_number(std::string_view(part).substr(slash + 1)) &&
           names.contains(part.substr(0, slash));
}

}  // namespace

Model::Model(Graph graph, SymbolTable symbols, Problems earlier)
    : graph_(std::move(graph)), symbols_(std::move(symbols)) {
    auto problems = std::move(earlier);
    std::vector<Tensor> inputs;
    for (auto edge : graph_.topo.global_inputs()) inputs.push_back(graph_.tensors[edge]);
    inference_ = infer(graph_, std::move(inputs), symbols_, problems);
    problems.raise();
}

std::vector<Tensor> Model::inputs() const {
    std::vector<Tensor> inputs;
    for (auto edge : graph_.topo.global_inputs()) inputs.push_back(inference_.tensors[edge]);
    return inputs;
}

std::vector<Tensor> Model::outputs() const {
    std::vector<Tensor> outputs;
    for (auto edge : graph_.topo.global_outputs()) outputs.push_back(inference_.tensors[edge]);
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

std::vector<std::string> Model::nodes_of(std::span<std::string const> names, std::vector<std::string>& unknown) const {
    std::set<std::string> known;
    add_names(graph_, known);
    std::vector<std::string> found;
    for (auto const& name : names) {
        auto before = found.size();
        if (known.contains(name) || is_part(name, known)) found.push_back(name);
        auto prefix = name + '#';
        for (auto it = known.lower_bound(prefix); it != known.end() && it->starts_with(prefix); ++it)
            if (auto number = std::string_view(*it).substr(prefix.size());
                is_number(number.substr(0, number.find('/'))))
                found.push_back(*it);
        if (found.size() == before) unknown.push_back(name);
    }
    return found;
}

void Model::substitute(std::string_view symbol, int64_t value) {
    auto known = variables();
    if (std::find(known.begin(), known.end(), symbol) == known.end())
        throw InvalidInput(concat("the model has no variable \"", symbol, "\"; it has ", quoted_list(known)));
    if (value < 0) throw InvalidInput(concat("the size ", value, " for \"", symbol, "\" is negative"));
    Bindings bindings(symbols_.size(), kUnbound);
    bindings[*symbols_.find(symbol)] = value;
    auto given = inputs();
    for (auto& input : given)
        if (input.shape)
            for (auto& size : *input.shape) size = size.substitute(bindings);
    Problems problems;
    auto symbols = symbols_;
    auto inference = infer(graph_, std::move(given), symbols, problems, inference_.tensors);
    problems.raise();
    inference_ = std::move(inference), symbols_ = std::move(symbols);
}

}  // namespace refactor::frontend
