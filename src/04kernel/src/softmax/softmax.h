#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// f32, any axes, vectorised (AVX-512 or AVX2).
MaybeKernel make_softmax_rows(SoftmaxInfo const&, Request const&);
MaybeKernel make_softmax_reference(SoftmaxInfo const&, Request const&);

}  // namespace refactor::kernel
