#include "computation/graph.h"

template class refactor::graph_topo::LinkedGraph<refactor::computation::Node, refactor::computation::Edge>;

namespace refactor::computation {

namespace {

std::string text_of(EdgePtr edge, SymbolTable const& symbols) {
    if (!edge) return "-";
    auto const& value = edge->value;
    auto text = value.name + ": " + std::string(name_of(value.dtype)) + refactor::to_string(value.shape, symbols);
    if (value.layout != kernel::Layout::Plain) text += "/c" + std::to_string(kernel::block_of(value.layout));
    return text;
}

}  // namespace

std::string to_string(Graph& graph, SymbolTable const& symbols) {
    std::string text;
    for (auto* node : graph.topological()) {
        auto const& op = *node->value.op;
        for (size_t i = 0; i < node->outputs().size(); ++i) text += (i ? ", " : "") + text_of(node->output(i), symbols);
        text += " = " + std::string(op.type());
        if (auto attributes = op.attributes(); !attributes.empty()) text += '{' + attributes + '}';
        text += '(';
        for (size_t i = 0; i < node->inputs().size(); ++i)
            text += (i ? ", " : "") + (node->input(i) ? node->input(i)->value.name : std::string("-"));
        for (auto const& param : op.params()) text += "; " + param.to_string(symbols);
        text += ")  # " + node->value.name + '\n';
    }
    return text;
}

}  // namespace refactor::computation
