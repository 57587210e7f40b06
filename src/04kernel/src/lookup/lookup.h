#pragma once
#include "kernel/ops/lookup.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(LookupInfo const&, Request const&);
#include "lookup/lookup_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
