#pragma once
#include "pass.h"

namespace refactor::computation {

/// A Reshape between two Elementwise nodes moves before the first, so that both become one. Left alone: nodes whose
/// operands cannot be reshaped alike without being repeated, and those behind a product or a convolution with weights,
/// which computes them itself. Runs before `fuse_elementwise`.
int hoist_reshapes(Model&, PassContext const&);

}  // namespace refactor::computation
