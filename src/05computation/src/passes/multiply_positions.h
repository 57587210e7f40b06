#pragma once
#include "pass.h"

namespace refactor::computation {

/// A transposed convolution of a single position (the first layer of most generators of images) with constant weights
/// becomes a matrix product of the channels with the weights that reach the output, between Reshapes, its epilogue
/// kept. Only of f32, without groups or dilations, and where every output is reached. Only on the CPU; behind
/// `fold_affine` and `fuse_epilogues`, which know channels, before `fold_constants` cuts the weights and
/// `select_layouts`.
int multiply_positions(Model&, PassContext const&);

}  // namespace refactor::computation
