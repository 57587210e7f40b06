#pragma once
#include "pass.h"

namespace refactor::computation {

/// A MatMul of single rows, each with a matrix that a Gather or GatherND picks from a stack of them, becomes a
/// GatherMatMul, which reads the matrices where they lie: experts of a mixture as exporters unroll them. Only on the
/// CPU, before epilogues are fused.
int fuse_gathered_matrices(Model&, PassContext const&);

}  // namespace refactor::computation
