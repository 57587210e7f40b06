#pragma once
#include "conv/named_kernel.h"
#include "kernel/ops/conv.h"

namespace refactor::kernel {

#define RG_GLOBAL_POOL_KERNEL(FACTORY, ID) KernelResult FACTORY(GlobalPoolInfo const&, Request const&);
#include "global_pool/global_pool_kernels.inc"
#undef RG_GLOBAL_POOL_KERNEL

/// Why the operands do not fit a global pooling, or nothing. `result`: of Y, if not the type of X.
std::string global_pool_mismatch(Request const&, DataType result = DataType::Undefined);

}  // namespace refactor::kernel
