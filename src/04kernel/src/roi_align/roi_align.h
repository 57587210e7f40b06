#pragma once
#include "kernel/ops/vision.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(RoiAlignInfo const&, Request const&);
#include "roi_align/roi_align_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
