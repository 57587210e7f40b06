// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx2.h"
#include "simd/math.h"
#include "recurrent/cell_impl.h"
// clang-format on

namespace refactor::kernel {

CellFunctions const& cell_functions_avx2() { return kFunctions; }

}  // namespace refactor::kernel
