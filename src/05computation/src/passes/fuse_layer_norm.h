#pragma once
#include "pass.h"

namespace refactor::computation {

/// Finds layer normalisation written out — `(x - mean(x)) / sqrt(mean((x - mean(x))²) + ε) · scale + bias` over the
/// last axes — and replaces it by one LayerNorm operator. Scale and bias must be constants over exactly the normalised
/// axes. f32 only. Must run before fuse_elementwise, which would merge the pieces.
int fuse_layer_norm(Model&, PassContext const&);

}  // namespace refactor::computation
