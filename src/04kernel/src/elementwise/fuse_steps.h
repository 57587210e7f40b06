#pragma once
#include "elementwise/program.h"

namespace refactor::kernel::elementwise {

/// As `find_tile`.
using FindTile = TileFunction (*)(TileKey key, Isa isa, bool& vectorised);

/// Replaces what quantised models do to every element by single steps, where `find` has functions for them:
/// `(byte - zero) * scale`, and a byte that is `round(x) + zero` within its range. Steps that become unused stay.
void fuse_steps(TileProgram& program, Isa isa, FindTile find);
/// The same of products that something is added to. Behind what looks for single operators.
void fuse_sums(TileProgram& program, Isa isa, FindTile find);

}  // namespace refactor::kernel::elementwise
