#pragma once
#include "pass.h"

namespace refactor::computation {

/// Stores constant right-hand sides of f32 products in fewer bytes, as `CompileOptions::weights` says; on a GPU also
/// those of f16 and bf16 in 8 bits. On a CPU also as the model stores them: f16 and bf16 weights that the model casts
/// to f32 are read as they are, which changes no result, unless the product is to be computed in another type anyway or
/// has so many rows that reading is no cost. A transposed constant is multiplied transposed instead of being moved,
/// whatever the option. With `Precision::F8` all weights become transposed with one scale, as tensor cores take them,
/// but those of nodes that stay f32.
///
/// Never touches matrices below 16 Ki elements, which are no cost, nor constants that anything but products reads. The
/// notes tell how much was made smaller, the largest error, and what was left in f32 and why. After `fuse_epilogues`: a
/// product with scales takes no part in other passes but `lower_precision`.
int store_weights(Model&, PassContext const&);

}  // namespace refactor::computation
