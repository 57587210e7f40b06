#pragma once
#include "kernel/ops/cache.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Any float type, position after position; heads on different threads.
MaybeKernel make_linear_attention_reference(LinearAttentionInfo const&, Request const&);

}  // namespace refactor::kernel
