#pragma once
#include "pass.h"

namespace refactor::computation {

/// Where a Reshape takes axes of one element from what a convolution makes, as exporters write one along a single axis,
/// what follows element by element, and global pooling, keep them and the Reshape comes behind: nothing then stands
/// between the convolution and its epilogue, and the rest stays in its layout. Runs before `fuse_elementwise`.
int sink_squeezes(Model&, PassContext const&);

}  // namespace refactor::computation
