#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Empty if scale and bias have one element or as many as the normalised axes, else what is wrong.
std::string why_not_layer_norm(LayerNormInfo const&, BindArgs const&);

/// f32, vectorised (AVX-512 or AVX2).
MaybeKernel make_layer_norm_rows(LayerNormInfo const&, Request const&);
/// The same with Y in bf16, rounded row by row.
MaybeKernel make_layer_norm_rounded(LayerNormInfo const&, Request const&);
MaybeKernel make_layer_norm_reference(LayerNormInfo const&, Request const&);

}  // namespace refactor::kernel
