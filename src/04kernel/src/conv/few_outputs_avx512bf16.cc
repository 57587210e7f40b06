#define RG_BF16_PAIRS
// clang-format off: the first chooses the instructions of what follows.
#include "simd/vec_avx512.h"
#include "conv/few_outputs_impl.h"
// clang-format on

namespace refactor::kernel {

FewOutputsIsa const& few_outputs_avx512bf16() { return kFewOutputsIsa; }

}  // namespace refactor::kernel
