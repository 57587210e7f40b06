#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

MaybeKernel make_top_k_reference(TopKInfo const&, Request const&);

}  // namespace refactor::kernel
