#pragma once
#include "kernel/ops/trees.h"

namespace refactor::kernel::cuda {

/// What follows the scores of one row, for scores of a type `Score` and the constant kTransform: see
/// tree_ensemble/post_transform.h.
extern char const* const kScoresSource;

}  // namespace refactor::kernel::cuda
