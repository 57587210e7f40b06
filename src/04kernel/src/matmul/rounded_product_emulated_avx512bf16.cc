// The loops over tiles, which this processor need not have, on emulated ones.
#include "emulated_avx512/amx.h"
//
#include "matmul/rounded_product_impl.h"
//
#include "matmul/rounded_tiles_impl.h"

namespace refactor::kernel {

void multiply_rounded_on_emulated_tiles(ProductBlock const& t) { multiply_by_tiles<ByRoundedTiles>(t); }

}  // namespace refactor::kernel
