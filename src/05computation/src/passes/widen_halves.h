#pragma once
#include "pass.h"

namespace refactor::computation {

/// Computes products, convolutions, attention and pooling of f16 and bf16 tensors in f32, on a CPU, where fast kernels
/// know no other floats: casts operands up, which is exact, and results down, which rounds once. Constants are left to
/// `fold_constants`, before which it runs, and to `store_weights`, which reads them as they were.
int widen_halves(Model&, PassContext const&);

}  // namespace refactor::computation
