#pragma once
#include "frontend/compile.h"
#include "frontend/operator.h"

/// Tensors of text in operators that only move elements (Reshape, Gather, Concat …), whatever they hold.
namespace refactor::frontend {

/// Whether an input of the node is a tensor of text.
bool has_text(ProcedureContext const& context);

/// The node `op` for inputs some of which are text: runs the same node on i64 numbers of the elements.
Inferred<ProcedurePtr> make_text_mover(std::shared_ptr<Operator const> op, ProcedureContext const& context);
/// The procedure behind it: `operands` are the inputs of the node that are inputs of the graph; `texts` and `moved`
/// tell which inputs and outputs are text.
ProcedurePtr run_text_mover(Compiled compiled, std::vector<size_t> operands, std::vector<bool> texts,
                            std::vector<bool> moved);

}  // namespace refactor::frontend
