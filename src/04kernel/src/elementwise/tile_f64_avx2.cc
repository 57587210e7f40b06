// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_f64_avx2.h"
#include "simd/math_f64.h"
#include "elementwise/vec_loops.h"
#include "elementwise/vec_math_f64.h"
#include "elementwise/vec_functors.h"
#include "elementwise/vec_table.h"
// clang-format on

namespace refactor::kernel::elementwise {

TileFunction tile_f64_avx2(TileCode code) { return vec_function(code); }

}  // namespace refactor::kernel::elementwise
