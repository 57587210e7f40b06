#include "matmul/rounded_product_impl.h"
//
#include "matmul/product_tiles_impl.h"

namespace refactor::kernel {

void multiply_rounded_avx512amx(ProductBlock const& t) { multiply_by_tiles<1>(t); }
int64_t rounded_scratch_avx512amx(int64_t block_m, int64_t block_k) { return tile_scratch<1>(block_m, block_k); }

}  // namespace refactor::kernel
