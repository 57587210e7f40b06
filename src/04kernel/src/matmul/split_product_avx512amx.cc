#define RG_ROWS 6
#define RG_VECTORS 4
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx512.h"
#include "simd/math.h"
#include "simd/activate.h"
#include "matmul/product_tile.h"
#include "matmul/widen.h"
#include "matmul/widen_rows.h"
#include "matmul/product_impl.h"
#include "matmul/product_tiles_impl.h"
// clang-format on

namespace refactor::kernel {

void multiply_split_avx512amx(ProductBlock const& t) { multiply_by_tiles<3>(t); }
int64_t split_scratch_avx512amx(int64_t block_m, int64_t block_k) { return tile_scratch<3>(block_m, block_k); }

}  // namespace refactor::kernel
