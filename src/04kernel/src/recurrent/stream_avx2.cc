#define RG_ROWS 4
#define RG_VECTORS 2
#define RG_SETS 2
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx2.h"
#include "recurrent/stream_impl.h"
// clang-format on

namespace refactor::kernel {

StreamFunctions const& stream_functions_avx2() { return kFunctions; }

}  // namespace refactor::kernel
