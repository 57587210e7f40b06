// clang-format off: what is included later is written against the wrapper.
#define RG_BF16_PAIRS
#include "simd/vec_avx512.h"
#include "simd/bf16_pairs.h"
#include "simd/math.h"
#include "attention/scores_impl.h"
// clang-format on

namespace refactor::kernel {

ScoreFunctions const& score_functions_avx512bf16() { return kFunctions; }

}  // namespace refactor::kernel
