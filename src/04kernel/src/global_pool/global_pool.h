#pragma once
#include "conv/named_kernel.h"
#include "kernel/ops/conv.h"

namespace refactor::kernel {

#define RG_GLOBAL_POOL_KERNEL(FACTORY, ID) KernelResult FACTORY(GlobalPoolInfo const&, Request const&);
#include "global_pool/global_pool_kernels.inc"
#undef RG_GLOBAL_POOL_KERNEL

/// Why the operands do not fit a global pooling, or nothing.
std::string global_pool_mismatch(Request const&);

}  // namespace refactor::kernel
