#pragma once
#include "pass.h"

namespace refactor::computation {

/// Computes what the model has in f16 and bf16 in f32, on a CPU, where fast kernels know no other floats. Operands are
/// cast up, which is exact. Tensors between the nodes become f32 and are not rounded; inputs, outputs and kept tensors
/// stay what the model says, and so does what operators without a fitting kernel read and make. Where only moved
/// elements come from and go to halves, halves are moved. With `Precision::Exact` the result of each node is rounded,
/// as the operators define.
///
/// What is computed of constants alone is left to `fold_constants`, before which it runs, and constants to
/// `store_weights`, which reads them as they were.
int widen_halves(Model&, PassContext const&);

}  // namespace refactor::computation
