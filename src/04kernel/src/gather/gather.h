#pragma once
#include "kernel/ops/movement.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(GatherInfo const&, Request const&);
#include "gather/gather_kernels.inc"
#undef RG_KERNEL

/// Reasons of all kernels to decline.
std::optional<Rejection> refuse_gather(Request const& request);

}  // namespace refactor::kernel
