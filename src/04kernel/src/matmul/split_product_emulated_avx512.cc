// The loops over tiles, which this processor need not have, on emulated ones.
#include "emulated_avx512/amx.h"
//
#include "matmul/split_product_impl.h"

namespace refactor::kernel {

TileFunctions emulated_split_tiles() { return kTileFunctions<BySplitTiles>; }

}  // namespace refactor::kernel
