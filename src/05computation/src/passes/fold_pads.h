#pragma once
#include "pass.h"

namespace refactor::computation {

/// Windows of convolutions and pools reach over the edges of an image instead of reading a copy with a Pad around it:
/// zeros for a convolution or an average, for a maximum what no element of the image is below. A Transpose may stand
/// between the two. Left alone: pads of batch or channels, those that are not known or as wide as the window.
/// Behind `cut_wide_strides`, which takes convolutions without pads.
int fold_pads(Model&, PassContext const&);

}  // namespace refactor::computation
