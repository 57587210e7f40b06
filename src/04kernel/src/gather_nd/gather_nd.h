#pragma once
#include "kernel/ops/movement.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(GatherNDInfo const&, Request const&);
#include "gather_nd/gather_nd_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
