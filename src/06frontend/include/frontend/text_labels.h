#pragma once
#include "frontend/compile.h"
#include "frontend/operator.h"

namespace refactor::frontend {

/// The node of a classifier whose labels are text: runs `op`, the same node with the numbers of the labels (i64) as
/// output 0, and puts the labels in their place.
Inferred<ProcedurePtr> make_text_labels(std::shared_ptr<Operator const> op, std::vector<std::string> labels,
                                        ProcedureContext const& context);
/// The procedure behind it: `operands` are the inputs of the node that are inputs of the graph.
ProcedurePtr run_text_labels(Compiled compiled, std::vector<size_t> operands, std::vector<std::string> labels);

}  // namespace refactor::frontend
