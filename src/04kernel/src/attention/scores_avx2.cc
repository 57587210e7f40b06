// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx2.h"
#include "simd/math.h"
#include "attention/scores_impl.h"
// clang-format on

namespace refactor::kernel {

ScoreFunctions const& score_functions_avx2() { return kFunctions; }

}  // namespace refactor::kernel
