#pragma once
#include "kernel/ops/vision.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(MaxUnpoolInfo const&, Request const&);
#include "max_unpool/max_unpool_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
