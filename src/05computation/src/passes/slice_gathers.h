#pragma once
#include "pass.h"

namespace refactor::computation {

/// A Gather of one index that is known becomes a Slice and a Reshape (`x[0]`, as exporters of PyTorch write it): runs
/// of bytes are then taken where they lie, and attention finds its operands behind them. Only of numbers, on the CPU,
/// and where the index is known to be within its axis. Behind `remove_identities`, which knows what picks the only
/// element, and before reshapes and transposes are moved.
int slice_gathers(Model&, PassContext const&);

}  // namespace refactor::computation
