#pragma once
#include "pass.h"

namespace refactor::computation {

/// A transposed convolution with stride 1 becomes a convolution with its kernel turned round:
///     y[i] = Σ_k x[i + pad - k d] w[k] = Σ_t x[i + t d - ((n - 1) d - pad)] w[n - 1 - t],
/// so that all that is known of convolutions serves it (fewer multiplications, few channels, chains). Only with
/// constant weights and pads that cut off no inputs, and not of a single position, which `multiply_positions` takes.
/// Runs behind `fold_constants` and before passes that look for convolutions.
int untranspose_convolutions(Model&, PassContext const&);

}  // namespace refactor::computation
