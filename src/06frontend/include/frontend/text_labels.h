#pragma once
#include "frontend/operator.h"

namespace refactor::frontend {

/// The node of a classifier whose labels are text: runs `op`, the same node with the numbers of the labels (i64) as
/// output 0, and puts the labels in their place.
Inferred<ProcedurePtr> make_text_labels(std::shared_ptr<Operator const> op, std::vector<std::string> labels,
                                        ProcedureContext const& context);

}  // namespace refactor::frontend
