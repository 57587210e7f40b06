#include "matmul/split_product_impl.h"

namespace refactor::kernel {

void multiply_split_avx512amx(ProductBlock const& t) { multiply_by_tiles<BySplitTiles>(t); }
int64_t split_scratch_avx512amx(int64_t block_m, int64_t block_k) { return BySplitTiles::scratch(block_m, block_k); }

}  // namespace refactor::kernel
