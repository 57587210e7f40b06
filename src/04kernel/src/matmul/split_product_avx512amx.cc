#include "matmul/split_product_impl.h"

namespace refactor::kernel {

void multiply_split_avx512amx(ProductBlock const& t) { multiply_by_tiles<3>(t); }
int64_t split_scratch_avx512amx(int64_t block_m, int64_t block_k) { return tile_scratch<3>(block_m, block_k); }

}  // namespace refactor::kernel
