#define RG_ROWS 6
#define RG_VECTORS 4
#define RG_BF16_PAIRS
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx512.h"
#include "simd/bf16_pairs.h"
#include "simd/math.h"
#include "simd/activate.h"
#include "matmul/product_tile.h"
#include "matmul/round_operands.h"
#include "matmul/no_widening.h"
#include "matmul/product_impl.h"
#include "matmul/product_tiles_impl.h"
// clang-format on

namespace refactor::kernel {

void multiply_rounded_avx512amx(ProductBlock const& t) { multiply_by_tiles<1>(t); }
int64_t rounded_scratch_avx512amx(int64_t block_m, int64_t block_k) { return tile_scratch<1>(block_m, block_k); }

}  // namespace refactor::kernel
