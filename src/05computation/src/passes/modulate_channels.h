#pragma once
#include "pass.h"

namespace refactor::computation {

/// A convolution whose weights are a constant times factors of its input or output channels, computed for every run as
/// StyleGAN 2 does (Karras et al., arXiv:1912.04958, section 2.2), takes the constant as its weights and multiplies
/// the channels of its input and output by the factors instead, those of the input in front of a Resize that enlarges
/// it. Weights and their factors are f32, of one group; reshapes and permutations may lie between them. Left alone
/// where the images are larger than weights of one tap. What else reads the product of weights and factors still does.
/// Must run before `fold_constants`, which moves the constant as the product was moved.
int modulate_channels(Model&, PassContext const&);

}  // namespace refactor::computation
