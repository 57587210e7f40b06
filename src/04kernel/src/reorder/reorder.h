#pragma once
#include "conv/named_kernel.h"
#include "kernel/ops/conv.h"

namespace refactor::kernel {

#define RG_REORDER_KERNEL(FACTORY, ID) KernelResult FACTORY(ReorderInfo const&, Request const&);
#include "reorder/reorder_kernels.inc"
#undef RG_REORDER_KERNEL

/// Why the operands do not fit a reorder without `channels_last`, or nothing. `rounds`: one may be f32, the other bf16.
std::string reorder_mismatch(ReorderInfo const&, Request const&, bool rounds = false);
/// Why this is not between f32 in the Plain layout and bf16 in blocks of 32 channels, for AVX-512 with BF16.
std::string rounding_mismatch(Request const&);

}  // namespace refactor::kernel
