#include "simd/vec_f64_avx512.h"
//
#include "pool/pool_separable_impl.h"

namespace refactor::kernel {

PoolSeparable<double> pool_f64_avx512() { return separable; }

}  // namespace refactor::kernel
