#define RG_TILE_F64 tile_f64_avx2
#include "simd/vec_avx2.h"
//
#include "elementwise/spread_impl.h"
#include "elementwise/tile_simd_impl.h"

namespace refactor::kernel::elementwise {

TileFunction tile_avx2(TileKey key) { return find_tile_function(key); }

SpreadFunction spread_avx2(SpreadKey key) { return find_spread_function<32>(key); }

}  // namespace refactor::kernel::elementwise
