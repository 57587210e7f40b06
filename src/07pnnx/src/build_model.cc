#include "common/error.h"
#include "importer.h"

#include <algorithm>

namespace refactor::pnnx {

using frontend::concat;
using frontend::InferContext;

namespace {

void report(graph_topo::BuildError<std::string, std::string> const& error, frontend::Problems& problems) {
    auto text = error.to_string();
    for (std::string_view rest = text; !rest.empty();) {
        auto end = std::min(rest.find('\n'), rest.size());
        // A cycle names all its nodes.
        constexpr size_t kLongest = 400;
        if (end) problems.invalid.push_back(concat(rest.substr(0, std::min(end, kLongest)), end > kLongest ? "…" : ""));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

}  // namespace

Shape shape_of(std::string const& name, std::vector<WrittenDim> const& dims, SymbolTable& symbols) {
    Shape shape;
    for (size_t i = 0; i < dims.size(); ++i) {
        if (auto* number = std::get_if<int64_t>(&dims[i]))
            shape.emplace_back(*number);
        else if (auto* symbol = std::get_if<std::string>(&dims[i]); symbol && !symbol->empty())
            shape.push_back(DimExpr::symbol(symbols.intern(*symbol)));
        else
            shape.push_back(DimExpr::symbol(symbols.intern(concat(name, ".", i))));
    }
    return shape;
}

frontend::Model build_model(GraphMaker maker, SymbolTable symbols, frontend::Problems problems) {
    auto built = std::move(maker).build();
    if (!built) report(built.error(), problems);
    if (!problems.invalid.empty()) problems.raise();
    frontend::Graph graph;
    graph.topo = std::move(built->graph.topo);
    graph.nodes = std::move(built->graph.nodes);
    graph.tensors = std::move(built->graph.edges);
    for (size_t i = 0; i < graph.tensors.size(); ++i) graph.tensors[i].name = std::move(built->edge_keys[i]);
    graph.formal_inputs = graph.topo.global_inputs().size();
    return frontend::Model(std::move(graph), std::move(symbols), std::move(problems));
}

Shape given_shape(std::string const& name, std::vector<InputDim> const& dims, SymbolTable& symbols) {
    if (dims.size() > InferContext::kMaxRank)
        throw InvalidInput(concat("the shape of ", quoted(name), " has ", dims.size(), " axes"));
    for (auto const& dim : dims)
        if (auto* number = std::get_if<int64_t>(&dim); number && *number < 0)
            throw InvalidInput(concat("the shape of ", quoted(name), " has the size ", *number));
    return shape_of(name, dims, symbols);
}

void check_inputs(InputShapes const& shapes, std::vector<std::string> const& inputs) {
    for (auto const& [name, dims] : shapes)
        if (std::find(inputs.begin(), inputs.end(), name) == inputs.end())
            throw InvalidInput(concat("the model has no input ", quoted(name)));
}

}  // namespace refactor::pnnx
