#pragma once
#include "pass.h"

namespace refactor::computation {

/// A Transpose that brings the channels of images forward, [N, …, C] to [N, C, …], and the Reorder of its result into
/// blocks of channels are one step, as are a Reorder out of blocks and the Transpose behind it that brings channels to
/// the end: one pass over memory instead of two, of which the second moves whole blocks. A Reshape of the positions may
/// lie between, and before a convolution what is computed element by element. Tokens of transformers that convolve are
/// such images. Behind `select_layouts`.
int reorder_channels_last(Model&, PassContext const&);

}  // namespace refactor::computation
