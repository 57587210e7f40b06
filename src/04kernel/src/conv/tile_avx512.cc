#include "conv/tile_impl.h"

namespace refactor::kernel {

TileIsa const& tile_avx512() { return kTileIsa; }

}  // namespace refactor::kernel
