#pragma once
#include "pass.h"

namespace refactor::computation {

/// A depthwise convolution of one tap, with stride 1 and without pads, is a factor for each channel and, with a bias, a
/// summand: elementwise operators, which `fold_affine` moves into weights beside them and others are fused with. Runs
/// before `fold_affine`.
int scale_channels(Model&, PassContext const&);

}  // namespace refactor::computation
