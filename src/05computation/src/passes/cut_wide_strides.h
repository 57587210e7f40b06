#pragma once
#include "pass.h"

namespace refactor::computation {

/// A convolution over one axis whose stride s is so wide that kernels would have to gather (framed transforms, as audio
/// models write their spectra) becomes one with stride 1: s neighbouring samples are taken for channels, of X and of
/// the weights. Only without pads, dilation and groups, where the window is a multiple of s. Runs before constants are
/// folded, so that the weights are moved once.
int cut_wide_strides(Model&, PassContext const&);

}  // namespace refactor::computation
