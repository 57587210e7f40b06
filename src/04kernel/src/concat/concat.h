#pragma once
#include "kernel/ops/movement.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(ConcatInfo const&, Request const&);
#include "concat/concat_kernels.inc"
#undef RG_KERNEL

/// What no kernel of the host takes.
std::optional<Rejection> refuse_concat(ConcatInfo const&, Request const&);

}  // namespace refactor::kernel
