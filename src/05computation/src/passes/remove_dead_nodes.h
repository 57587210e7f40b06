#pragma once
#include "pass.h"

namespace refactor::computation {

/// Removes nodes from which no output and no kept tensor can be reached. Never touches global inputs.
int remove_dead_nodes(Model&, PassContext const&);

}  // namespace refactor::computation
