#include "matmul/product.h"
#include "matmul/rounded_product.h"

#if RG_X86

namespace refactor::kernel {

ProductFunctions with_tiles(ProductFunctions f, void (*multiply)(ProductBlock const&),
                            int64_t (*scratch)(int64_t, int64_t)) {
    f.multiply_tiles = multiply, f.tile_scratch = scratch;
    return f;
}

void multiply_rounded_avx512amx(ProductBlock const&);
int64_t rounded_scratch_avx512amx(int64_t block_m, int64_t block_k);
void multiply_split_avx512amx(ProductBlock const&);
int64_t split_scratch_avx512amx(int64_t block_m, int64_t block_k);

ProductFunctions const& product_functions_avx512amx() {
    static ProductFunctions const kAll =
        with_tiles(product_functions_avx512(), multiply_split_avx512amx, split_scratch_avx512amx);
    return kAll;
}
RoundedFunctions const& rounded_functions_avx512amx() {
    static RoundedFunctions const kAll{
        with_tiles(rounded_functions_avx512bf16().product, multiply_rounded_avx512amx, rounded_scratch_avx512amx),
        rounded_functions_avx512bf16().round_rows};
    return kAll;
}

}  // namespace refactor::kernel

#endif
