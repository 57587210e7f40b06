#pragma once
#include "kernel/ops/vision.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(MaxRoiPoolInfo const&, Request const&);
#include "max_roi_pool/max_roi_pool_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
