#pragma once
#include "pass.h"

namespace refactor::computation {

/// What is computed element by element of the channels that several convolutions make, and nothing else needs, is
/// computed of each before they are concatenated, with its part of the constants of channels: factors, biases and
/// activations then are the convolutions' own. Runs before `fold_affine`.
int sink_concats(Model&, PassContext const&);

}  // namespace refactor::computation
