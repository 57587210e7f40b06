#define RG_BF16_PAIRS
#define RG_AHEAD 512
// clang-format off: the header of the instruction set comes first.
#include "simd/vec_avx512.h"
#include "recurrent/row_product_impl.h"
// clang-format on

namespace refactor::kernel {

RowProduct row_product_avx512bf16() { return multiply; }

}  // namespace refactor::kernel
