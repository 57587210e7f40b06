#pragma once
#include "lowering.h"

namespace refactor::frontend {

/// The nodes of a graph that are `deferred`, as a procedure that infers and compiles them when the values that they
/// wait for have been computed: once for each combination of types and asked-for contents, which is then kept.
///
/// `operands` receives the edges it reads, `results` those it computes that are global outputs of `graph`.
ProcedurePtr make_deferred(Graph const& graph, Inference const& inference, std::vector<bool> const& nodes,
                           SymbolTable const& symbols, computation::CompileOptions const& options,
                           std::vector<graph_topo::EdgeIdx>& operands, std::vector<graph_topo::EdgeIdx>& results);

}  // namespace refactor::frontend
