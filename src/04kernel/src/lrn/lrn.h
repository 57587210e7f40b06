#pragma once
#include "kernel/ops/vision.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(LrnInfo const&, Request const&);
#include "lrn/lrn_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
