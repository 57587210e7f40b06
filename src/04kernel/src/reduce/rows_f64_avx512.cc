// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_f64_avx512.h"
#include "simd/math_f64.h"
#include "reduce/rows_impl.h"
// clang-format on

namespace refactor::kernel {

RowFunctionsOf<double> const& row_functions_f64_avx512() { return kFunctions; }

}  // namespace refactor::kernel
