#pragma once
#include "pass.h"

namespace refactor::computation {

/// Makes recurrent layers with quantised weights layers of f32 where no kernel multiplies bytes: on other devices than
/// the CPU, and where W or R is no constant. Their inputs and states are no longer rounded. Must run before
/// `fold_constants`, which computes the weights.
int widen_recurrent_weights(Model&, PassContext const&);

}  // namespace refactor::computation
