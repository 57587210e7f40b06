#pragma once
#include "conv/named_kernel.h"
#include "kernel/ops/conv.h"

namespace refactor::kernel {

#define RG_REORDER_KERNEL(FACTORY, ID) KernelResult FACTORY(ReorderInfo const&, Request const&);
#include "reorder/reorder_kernels.inc"
#undef RG_REORDER_KERNEL

/// Why the operands do not fit a reorder without `channels_last`, or nothing.
std::string reorder_mismatch(ReorderInfo const&, Request const&);

}  // namespace refactor::kernel
