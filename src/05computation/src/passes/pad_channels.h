#pragma once
#include "pass.h"

namespace refactor::computation {

/// Convolutions with the channels last (a GPU's) of images with 3 to 7 channels, or with an odd number of them, read
/// them padded with zeros to 16 bytes, as do their weights: vectors of that size feed tensor cores. An image that has
/// been turned and converted for this is turned, converted and padded by one ChannelVectors. Only without groups.
/// Behind `multiply_windows`, before `fold_constants`, which pads the weights.
int pad_channels(Model&, PassContext const&);

}  // namespace refactor::computation
