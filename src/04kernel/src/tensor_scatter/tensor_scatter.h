#pragma once
#include "kernel/ops/cache.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(TensorScatterInfo const&, Request const&);
#include "tensor_scatter/tensor_scatter_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
