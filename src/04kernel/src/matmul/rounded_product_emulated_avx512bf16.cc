// The loops over tiles, which this processor need not have, on emulated ones.
#include "emulated_avx512/amx.h"
//
#include "matmul/rounded_product_impl.h"
//
#include "matmul/rounded_tiles_impl.h"

namespace refactor::kernel {

TileFunctions emulated_rounded_tiles() { return kTileFunctions<ByRoundedTiles>; }

}  // namespace refactor::kernel
