#pragma once
#include "pass.h"

namespace refactor::computation {

/// InstanceNormalization of channels that a Reshape merged into groups, and is taken apart again behind it, as
/// exporters write group normalisation, becomes a GroupNorm of the channels themselves. Constants per channel that
/// multiply it or are added to it become its scale and bias.
int fuse_group_norm(Model&, PassContext const&);

}  // namespace refactor::computation
