#pragma once
#include "lowering.h"

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
    /// Where each symbol is bound: an edge with that symbol as one of its sizes, or `kNoEdge`.
    std::vector<graph_topo::EdgeIdx> binders;
};

Partition partition(Graph const& graph, Inference const& inference, SymbolTable const& symbols,
                    computation::CompileOptions const& options, Problems& problems);

}  // namespace refactor::frontend
