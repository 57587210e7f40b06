#pragma once
#include "kernel/ops/vision.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(GridSampleInfo const&, Request const&);
#include "grid_sample/grid_sample_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
