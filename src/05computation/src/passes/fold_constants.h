#pragma once
#include "pass.h"

namespace refactor::computation {

/// Computes nodes whose inputs and sizes are all constant and puts the results in their place. Leaves nodes whose
/// result would be much larger than what they read (more than 16 MiB and 4 times the inputs), and nodes that no CPU
/// kernel computes.
int fold_constants(Model&, PassContext const&);
/// The same for one node; false if it stays.
bool fold_constant(Graph&, NodePtr);

}  // namespace refactor::computation
