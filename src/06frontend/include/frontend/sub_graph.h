#pragma once
#include "computation/graph.h"
#include "frontend/graph.h"

namespace refactor::frontend {

/// Lowers a sub-graph to a model of its own. Constant global inputs become constants of the
/// model; `inputs` receives the numbers of the others, which are the model's inputs.
computation::Model lower_sub_graph(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                                   std::vector<uint32_t>& inputs, Problems& problems);

/// Lowers a sub-graph into `target`, where `edges` are its global inputs. Returns its outputs; null where lowering
/// failed, which is in `problems`.
std::vector<computation::EdgePtr> inline_sub_graph(computation::Graph& target, Graph const& graph,
                                                   std::span<Tensor const> tensors, SymbolTable const& symbols,
                                                   std::span<computation::EdgePtr const> edges, Problems& problems);

}  // namespace refactor::frontend
