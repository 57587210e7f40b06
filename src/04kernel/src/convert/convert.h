#pragma once
#include "kernel/ops/quantize.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

MaybeKernel make_convert_blocks(ConvertInfo const&, Request const&);

}  // namespace refactor::kernel
