#pragma once
#include "pass.h"

namespace refactor::computation {

/// A product with weights [K, N] whose result is reordered into an image in blocks of N channels is a convolution of
/// one tap of an image of K channels, if these are at most half as many: less is reordered. So is one that reads what
/// an image of K channels was reordered to, if N is as small; its residual is reordered, too. Feed-forward layers of
/// transformers that convolve in between (SegFormer, PVT) become convolutions, where the smaller side has at most 96
/// channels: beyond, products gain more than reorders cost. CPU; behind `reorder_channels_last`.
int convolve_tokens(Model&, PassContext const&);

}  // namespace refactor::computation
