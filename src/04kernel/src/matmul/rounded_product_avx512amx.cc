#include "matmul/rounded_product_impl.h"
//
#include "matmul/rounded_tiles_impl.h"

namespace refactor::kernel {

TileFunctions rounded_tiles_avx512amx() { return kTileFunctions<ByRoundedTiles>; }

}  // namespace refactor::kernel
