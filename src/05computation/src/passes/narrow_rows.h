#pragma once
#include "pass.h"

namespace refactor::computation {

/// On a CPU with tiles of bf16 (AMX), or whose vectors multiply bf16 at twice the rate of f32 (Zen 4 and 5), where
/// products may round: a row-major tensor of which products, and attention,
/// read nothing but rounded numbers is rounded when it is stored. Results of the model stay the same to the bit, but
/// for few rows whose keys attention would have read in f32. Tensors of nodes in `keep_f32` stay as they are. Must run
/// behind all that changes operators.
int narrow_rows(Model&, PassContext const&);

}  // namespace refactor::computation
