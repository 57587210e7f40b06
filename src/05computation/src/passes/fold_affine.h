#pragma once
#include "pass.h"

namespace refactor::computation {

/// Folds an Elementwise node that scales and shifts channels by constants (batch normalisation, a bias, a scale) into
/// the weights and bias of the convolution, transposed convolution or matrix product before it, which nothing else may
/// read. Weights are constants of f32, f16 or bf16; halves are rounded once more. Must run before fuse_elementwise,
/// while such nodes are still alone.
int fold_affine(Model&, PassContext const&);

}  // namespace refactor::computation
