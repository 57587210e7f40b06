#pragma once
#include "computation/graph_archive.h"
#include "computation/operator.h"

namespace refactor::computation {

/// Type, params and whatever else makes the operator.
void write_operator(GraphWriter&, Operator const&);
/// The operator that was written; throws `InvalidModel` for an unknown type.
std::shared_ptr<Operator const> read_operator(GraphReader&);

}  // namespace refactor::computation
