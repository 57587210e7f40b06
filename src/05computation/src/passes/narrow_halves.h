#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a GPU, whose kernels of attention and of products with packed numbers take f16 and bf16 and keep sums in f32:
/// what is cast to f32 before them, and back behind them, stays in the type of the tensors. Masks, scales, zero points
/// and biases of packed numbers keep their type. Must run behind `widen_halves` and before casts are fused into other
/// nodes; the casts that nobody reads any more go with `remove_dead_nodes`.
int narrow_halves(Model&, PassContext const&);

}  // namespace refactor::computation
