// The loops over tiles, which this processor need not have, on emulated ones.
#include "emulated_avx512/amx.h"
//
#include "matmul/split_product_impl.h"

namespace refactor::kernel {

void multiply_split_on_emulated_tiles(ProductBlock const& t) { multiply_by_tiles<BySplitTiles>(t); }

}  // namespace refactor::kernel
