#define RG_ROWS 6
#define RG_VECTORS 4
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_f64_avx512.h"
#include "simd/math_f64.h"
#include "simd/activate.h"
#include "matmul/product_f64_impl.h"
// clang-format on

namespace refactor::kernel {

ProductFunctionsOf<double> const& product_functions_f64_avx512() { return kFunctions; }

}  // namespace refactor::kernel
