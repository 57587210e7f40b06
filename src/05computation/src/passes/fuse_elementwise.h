#pragma once
#include "pass.h"

namespace refactor::computation {

/// Merges an Elementwise node into the only node that reads it if that is Elementwise over the same shape, so that a
/// chain becomes one pass over memory. Kept tensors stay. Must run after the passes that match single elementwise
/// operators (fold_affine, fuse_layer_norm) and before those that look for whole expressions (recognise_activations,
/// fuse_epilogues).
int fuse_elementwise(Model&, PassContext const&);

}  // namespace refactor::computation
