#pragma once
#include "kernel/ops/reduce.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

MaybeKernel make_cumsum_strips_avx512(CumSumInfo const&, Request const&);
MaybeKernel make_cumsum_strips_avx2(CumSumInfo const&, Request const&);
MaybeKernel make_cumsum_reference(CumSumInfo const&, Request const&);

}  // namespace refactor::kernel
