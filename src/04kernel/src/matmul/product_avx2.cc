#include "simd/vec_avx2.h"
// The wrapper comes first: the others are written against it.
#include "simd/activate.h"
#include "simd/math.h"
#define RG_ROWS 6
#define RG_VECTORS 2
#include "matmul/product_impl.h"

namespace refactor::kernel {

ProductFunctions const& product_functions_avx2() { return kFunctions; }

}  // namespace refactor::kernel
