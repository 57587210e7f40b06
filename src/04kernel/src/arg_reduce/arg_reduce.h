#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

MaybeKernel make_arg_reduce_reference(ArgReduceInfo const&, Request const&);

}  // namespace refactor::kernel
