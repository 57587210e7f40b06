#pragma once
#include "pass.h"

namespace refactor::computation {

/// Replaces sub-expressions of Elementwise programs by single instructions: x·sigmoid(x) → Silu, x·hardsigmoid(x) and
/// x·clip(x+3, 0, 6)/6 → HardSwish, ½x(1 + erf(x/√2)) → GeluErf, ½x(1 + tanh(√(2/π)(x + 0.044715x³))) → GeluTanh,
/// max(x, 0) → Relu. Of f32, on a GPU also f16 and bf16; constants must agree to 1e-4 relative, which is what exporters
/// round to, or be the exact ones rounded to f16. Works on whole expressions: run it after fuse_elementwise.
int recognise_activations(Model&, PassContext const&);

}  // namespace refactor::computation
