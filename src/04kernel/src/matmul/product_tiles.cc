#include "matmul/product.h"
#include "matmul/rounded_product.h"

#if RG_X86

namespace refactor::kernel {

ProductFunctions const& product_functions_avx512amx() {
    static ProductFunctions const kAll = with_tiles(product_functions_avx512(), split_tiles_avx512amx());
    return kAll;
}
RoundedFunctions const& rounded_functions_avx512amx() {
    static RoundedFunctions const kAll = [] {
        auto functions = rounded_functions_avx512bf16();
        functions.product.tiles = rounded_tiles_avx512amx();
        return functions;
    }();
    return kAll;
}

}  // namespace refactor::kernel

#endif
