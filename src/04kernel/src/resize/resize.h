#pragma once
#include "kernel/ops/movement.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(ResizeInfo const&, Request const&);
#include "resize/resize_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
