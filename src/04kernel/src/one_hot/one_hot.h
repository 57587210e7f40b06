#pragma once
#include "kernel/ops/movement.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(OneHotInfo const&, Request const&);
#include "one_hot/one_hot_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
