#pragma once
#include "pass.h"

namespace refactor::computation {

/// where(isnan(p), 0, p) of the probabilities p of a Softmax becomes a property of the Softmax, which costs nothing:
/// exporters guard rows without any score so. Only on the CPU, only where nobody reads p otherwise, and only guards
/// inside of larger Elementwise programs: run it after fuse_elementwise, and after fuse_attention, which takes guards
/// for itself.
int fold_nan_guards(Model&, PassContext const&);

}  // namespace refactor::computation
