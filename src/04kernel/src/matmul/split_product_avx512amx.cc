#include "matmul/split_product_impl.h"

namespace refactor::kernel {

TileFunctions split_tiles_avx512amx() { return kTileFunctions<BySplitTiles>; }

}  // namespace refactor::kernel
