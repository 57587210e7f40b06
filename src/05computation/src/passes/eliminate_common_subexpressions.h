#pragma once
#include "pass.h"

namespace refactor::computation {

/// Merges nodes with equal operator, attributes, params, inputs and output types; equal small constants are merged
/// first.
int eliminate_common_subexpressions(Model&, PassContext const&);

}  // namespace refactor::computation
