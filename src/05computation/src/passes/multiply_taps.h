#pragma once
#include "pass.h"

namespace refactor::computation {

/// A transposed convolution whose few output channels would leave many lanes of kernels empty becomes a product of its
/// kernel with the channels, lanes being positions, and a sum of what the taps of neighbours reach (`Col2Im`):
///     columns[m k, u] = Σ_c w[c, m k] x[c, u],  y[m, u s + k d - pad] += columns[m k, u].
/// Only with constant weights and one group, and where fewer multiply-adds than those of blocks of channels, phase by
/// phase or merged, repay the columns. Only on the CPU; behind `untranspose_convolutions`, before `merge_phases`,
/// before epilogues are fused and before constants are folded once more.
int multiply_taps(Model&, PassContext const&);

}  // namespace refactor::computation
