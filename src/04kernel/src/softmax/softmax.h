#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

MaybeKernel make_softmax_reference(SoftmaxInfo const&, Request const&);

}  // namespace refactor::kernel
