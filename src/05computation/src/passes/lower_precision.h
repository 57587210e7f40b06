#pragma once
#include "pass.h"

namespace refactor::computation {

/// Computes tensors of f32 in `CompileOptions::compute` (f16 or bf16): operands of products, convolutions, attention,
/// normalisations, pooling, reductions and movement become that type where a kernel takes it, and elementwise programs
/// read and store it, though they compute in f32. Sums are f32 in all these kernels. Casts stand only where a tensor of
/// one type meets a node of the other. Never touched: inputs, outputs and kept tensors, nodes that
/// `PassContext::keep_f32` names. Runs after everything that fuses, so that what is computed together is rounded once.
int lower_precision(Model&, PassContext const&);

}  // namespace refactor::computation
