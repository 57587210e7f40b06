#pragma once
#include "pass.h"

namespace refactor::computation {

/// A transposed convolution with stride s and few output channels (a generator's image, a decoder's waveform) becomes a
/// convolution with stride 1 whose output channels are its s phases, which fill vectors that the few channels would
/// leave empty, and a transposition that puts the phases side by side:
///     y[c, u s + r - pad] = Σ_t x[u - t] w[c, r + t s].
/// Only with constant weights, one group and no dilation, and where at least half of the work goes. Runs after
/// `fold_affine`, which knows transposed convolutions, and before epilogues are fused and layouts chosen.
int merge_phases(Model&, PassContext const&);

}  // namespace refactor::computation
