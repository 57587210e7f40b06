#include "simd/vec_f64_avx512.h"
//
#include "pool/pool_strips_impl.h"

namespace refactor::kernel {

PoolStrips<double> pool_f64_avx512() { return strips; }

}  // namespace refactor::kernel
