#include "simd/vec_avx2.h"
//
#include "elementwise/tile_simd_impl.h"

namespace refactor::kernel::elementwise {

TileFunction tile_avx2(TileKey key) { return find_tile_function(key); }

}  // namespace refactor::kernel::elementwise
