#pragma once
#include "conv/named_kernel.h"
#include "kernel/ops/conv.h"

namespace refactor::kernel {

#define RG_POOL_KERNEL(FACTORY, ID) KernelResult FACTORY(PoolInfo const&, Request const&);
#include "pool/pool_kernels.inc"
#undef RG_POOL_KERNEL

/// Why the operands do not fit a pooling, or nothing.
std::string pool_mismatch(PoolInfo const&, Request const&);

}  // namespace refactor::kernel
