#pragma once
#include "kernel/ops/vision.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(Col2ImInfo const&, Request const&);
#include "col2im/col2im_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
