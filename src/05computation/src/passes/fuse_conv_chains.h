#pragma once
#include "pass.h"

namespace refactor::computation {

/// Joins a depthwise convolution with the convolution of one tap before it, the one behind it, or both (ConvChain),
/// where the estimates of the kernels say that not writing the tensors between is faster than the convolutions one by
/// one. Sizes that are not known yet are taken to be large: the kernel is chosen again when they are bound. Needs the
/// layouts and epilogues, so it runs after `select_layouts` and `fuse_epilogues`. CPU only; tensors that a user keeps
/// and those with other consumers stay.
int fuse_conv_chains(Model&, PassContext const&);

}  // namespace refactor::computation
