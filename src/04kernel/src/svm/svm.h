#pragma once
#include "kernel/ops/svm.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm, Info) movement::KernelResult op##_##algorithm(Info const&, Request const&);
#include "svm/svm_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
