#pragma once
#include "elementwise/tile.h"

namespace refactor::kernel::elementwise {

/// The best function of the instruction set, or the portable one; null if there is none.
TileFunction find_tile(TileKey key, Isa isa, bool& vectorised);
/// ns for one element, roughly.
float cost_of(TileKey key, bool vectorised);

}  // namespace refactor::kernel::elementwise
