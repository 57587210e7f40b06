#include "simd/math_probe_impl.h"

namespace refactor::kernel {

void math_probe_avx2(MathFunction f, float const* x, float* y, int64_t count) { probe_all(f, x, y, count); }
void transpose_probe_avx2(float const* x, float* y) { transpose_all(x, y); }

}  // namespace refactor::kernel
