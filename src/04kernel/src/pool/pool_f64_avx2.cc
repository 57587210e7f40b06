#include "simd/vec_f64_avx2.h"
//
#include "pool/pool_separable_impl.h"

namespace refactor::kernel {

PoolSeparable<double> pool_f64_avx2() { return separable; }

}  // namespace refactor::kernel
