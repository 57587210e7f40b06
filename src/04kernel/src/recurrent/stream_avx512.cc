#define RG_ROWS 8
#define RG_VECTORS 4
#define RG_SETS 1
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx512.h"
#include "recurrent/stream_impl.h"
// clang-format on

namespace refactor::kernel {

StreamFunctions const& stream_functions_avx512() { return kFunctions; }

}  // namespace refactor::kernel
