#pragma once
#include "pass.h"

namespace refactor::computation {

/// Gives integer convolutions, and pooling of quantised tensors, operands whose channels lie behind the spatial axes,
/// [N, spatial…, C], with Transpose nodes around them; elementwise and quantising nodes between them follow, so that
/// transposes remain at the ends of such a region only. Pooling becomes IntegerPool on the way: maxima of bytes, and
/// averages (over all positions or without padding) between a Dequantize and perhaps a Quantize node.
///
/// Must run behind `fold_quantization`, which matches channels in front; `remove_dead_nodes` and `remove_identities`
/// clear what is left behind.
int channels_last_integers(Model&, PassContext const&);

}  // namespace refactor::computation
