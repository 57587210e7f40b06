#define RG_ROWS 6
#define RG_VECTORS 2
#define RG_MULTIPLY_FEW multiply_few_avx2
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx2.h"
#include "simd/math.h"
#include "simd/activate.h"
#include "matmul/product_tile.h"
#include "matmul/widen.h"
#include "matmul/widen_rows.h"
#include "matmul/product_columns_impl.h"
#include "matmul/product_impl.h"
#include "matmul/product_vector_impl.h"
#include "matmul/product_flat_impl.h"
#include "matmul/strassen_impl.h"
// clang-format on

namespace refactor::kernel {

ProductFunctions const& product_functions_avx2() { return kFunctions; }

}  // namespace refactor::kernel
