#include "matmul/rounded_product_impl.h"
//
#include "matmul/rounded_tiles_impl.h"

namespace refactor::kernel {

void multiply_rounded_avx512amx(ProductBlock const& t) { multiply_by_tiles<ByRoundedTiles>(t); }
int64_t rounded_scratch_avx512amx(int64_t block_m, int64_t block_k) { return ByRoundedTiles::scratch(block_m, block_k); }

}  // namespace refactor::kernel
