#pragma once
#include "conv/geometry.h"
#include "conv/named_kernel.h"
#include "kernel/ops/conv.h"

namespace refactor::kernel {

#define RG_POOL_KERNEL(FACTORY, ID) KernelResult FACTORY(PoolInfo const&, Request const&);
#include "pool/pool_kernels.inc"
#undef RG_POOL_KERNEL

/// Why the operands do not fit a pooling, or nothing.
std::string pool_mismatch(PoolInfo const&, Request const&);

/// `geometry_of` without the taps that lie behind the end pad wherever the window is: they count for nothing, and a
/// window that is rounded up may have thousands.
Result<Geometry, Rejection> pool_geometry(Window const&, std::span<int64_t const> kernel, BindArgs const&);

}  // namespace refactor::kernel
