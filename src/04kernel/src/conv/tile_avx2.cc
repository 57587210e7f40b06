#include "conv/tile_impl.h"

namespace refactor::kernel {

TileIsa const& tile_avx2() { return kTileIsa; }

}  // namespace refactor::kernel
