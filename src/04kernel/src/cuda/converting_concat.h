#pragma once
#include "kernel/ops/movement.h"
#include "movement/movement.h"

namespace refactor::kernel::cuda {

/// Concat whose pieces are f32, f16 or bf16 in any mixture and become one of these types; with a second output, of two.
movement::KernelResult converting_concat(ConcatInfo const&, Request const&);

}  // namespace refactor::kernel::cuda
