#pragma once
#include "elementwise/fuse_steps.h"

namespace refactor::kernel::elementwise {

/// Steps of f32 whose operands are cast from bf16, or whose results (or max(those, 0)) are cast to it, load or store it
/// themselves where `find` has such a function. The casts stay for those who read them otherwise.
///
/// Example: Cast(x), Fma, Relu, Cast is one step.
void fuse_bf16(TileProgram& program, Isa isa, FindTile find);

}  // namespace refactor::kernel::elementwise
