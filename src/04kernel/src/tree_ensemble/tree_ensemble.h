#pragma once
#include "kernel/ops/trees.h"
#include "movement/movement.h"

namespace refactor::kernel {

#define RG_KERNEL(op, algorithm) movement::KernelResult op##_##algorithm(TreeEnsembleInfo const&, Request const&);
#include "tree_ensemble/tree_ensemble_kernels.inc"
#undef RG_KERNEL

}  // namespace refactor::kernel
