#pragma once
#include "kernel/ops/elementwise.h"

namespace refactor::kernel {

using ElementwiseResult = Result<std::unique_ptr<Kernel>, Rejection>;
#define RG_KERNEL(op, algorithm) ElementwiseResult op##_##algorithm(ElementwiseInfo const&, Request const&);
#include "elementwise/elementwise_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
