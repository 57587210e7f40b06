#define RG_TILE_F64 tile_f64_avx512
#include "simd/vec_avx512.h"
//
#include "elementwise/spread_impl.h"
#include "elementwise/tile_simd_impl.h"

namespace refactor::kernel::elementwise {

TileFunction tile_avx512(TileKey key) { return find_tile_function(key); }

SpreadFunction spread_avx512(SpreadKey key) { return find_spread_function<64>(key); }

}  // namespace refactor::kernel::elementwise
