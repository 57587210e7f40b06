#include "simd/lanes_f32.h"
//
#include "pool/pool_blocked_impl.h"

namespace refactor::kernel {

PoolIsa const& pool_avx512() { return kPoolIsa; }

}  // namespace refactor::kernel
