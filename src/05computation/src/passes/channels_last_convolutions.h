#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a GPU with cuDNN, whose tensor cores multiply with the channels last: convolutions of f16 and bf16 (of f32 with
/// `Precision::Tf32`) get operands [N, spatial…, C], as `channels_last_integers` does for bytes. Pooling becomes that
/// of one axis more, which the channels are, means over all positions become reductions, and elementwise nodes,
/// concatenations, splits and resizes follow, so that transposes remain at the ends of a region only.
///
/// Must run behind `lower_precision`, which decides types; weights are turned by `fold_constants`, which has to come
/// after it, and what is left behind goes with `remove_dead_nodes`.
int channels_last_convolutions(Model&, PassContext const&);

}  // namespace refactor::computation
