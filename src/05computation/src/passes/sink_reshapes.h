#pragma once
#include "pass.h"

namespace refactor::computation {

/// Products with a matrix of weights, and what follows them element by element, take [..., M, K] as it is where a
/// Reshape has merged its leading axes: nothing then stands between a product and its epilogue, and kernels see which
/// rows are of one sample. Where rows stay merged, what follows takes them so.
int sink_reshapes(Model&, PassContext const&);

}  // namespace refactor::computation
