#pragma once
#include "pass.h"

namespace refactor::computation {

/// Convolutions of one tensor whose results are added become one, with the sum of their weights: those of the smaller
/// window are placed where they lie in the larger one. An affine function of the tensor's channels (batch
/// normalisation beside convolutions) is such a convolution of one tap. This is what networks that were trained with
/// parallel branches are meant to become (Ding et al., RepVGG, arXiv:2101.03697). Weights and biases are f32 constants;
/// nothing else may read the branches. Runs behind `fold_affine`, before elementwise nodes are fused.
int merge_branches(Model&, PassContext const&);

}  // namespace refactor::computation
