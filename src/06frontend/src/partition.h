#pragma once
#include "lowering.h"

#include <map>

namespace refactor::frontend {

/// One call of the executable: a part that becomes a program, or a procedure with its operands.
struct PlannedCall {
    std::optional<Part> part;
    std::vector<uint32_t> output_values;  ///< of the part
    ProcedurePtr procedure;
    std::string name, type;                              ///< of the procedure's node
    std::vector<graph_topo::EdgeIdx> operands, results;  ///< of the procedure
};

/// A graph cut into calls in an executable order. Values have the numbers of their edges; further numbers are copies
/// for outputs.
struct Partition {
    std::vector<PlannedCall> calls;
    std::vector<uint32_t> output_values;
    uint32_t values = 0;
    /// Where each symbol is bound: an edge, or a value of `carriers`, with that symbol as one of its sizes; or
    /// `kNoEdge`.
    std::vector<uint32_t> binders;
    /// Types of values that are no edges: their sizes are the content of an edge.
    std::map<uint32_t, Tensor> carriers;
};

Partition partition(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                    computation::CompileOptions const& options, Problems& problems);

}  // namespace refactor::frontend
