#pragma once
#include "pass.h"

namespace refactor::computation {

/// Element by element operators between a Transpose and the one that undoes it take their operands as they are before
/// it: both transposes then go. Vectors (a scale for each channel, say) move to the axis that theirs was. Must run
/// before `remove_identities`, which cancels the transposes, and before elementwise nodes are fused.
int sink_transposes(Model&, PassContext const&);

}  // namespace refactor::computation
