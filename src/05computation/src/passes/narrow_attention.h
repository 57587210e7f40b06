#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a GPU, whose kernels of attention take f16 and bf16 and keep sums in f32: what a front end casts to f32 before
/// attention, and back behind it, stays in the type of the tensors. Masks keep their type. Must run before casts are
/// fused into other nodes; the casts that nobody reads any more go with `remove_dead_nodes`.
int narrow_attention(Model&, PassContext const&);

}  // namespace refactor::computation
