#include "simd/vec_avx512.h"
// Written against it.
#include "linear_attention/linear_steps_impl.h"

namespace refactor::kernel {

LinearStepsFunctions const& linear_steps_avx512() { return kFunctions; }

}  // namespace refactor::kernel
