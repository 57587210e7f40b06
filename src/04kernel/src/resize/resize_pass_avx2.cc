#include "resize/resize_pass.h"

#include <immintrin.h>

namespace refactor::kernel {
namespace {

/// Eight elements of Y at a time, one tap after the other.
void sample_row(ResizePass const& p, float const* x, float* y) {
    for (int64_t o = 0; o < p.out; o += 8) {
        __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        int64_t left = p.out - o;
        __m256i real = _mm256_cmpgt_epi32(_mm256_set1_epi32(left < 8 ? static_cast<int>(left) : 8), lane);
        __m256 sum = _mm256_setzero_ps();
        for (int64_t k = 0; k < p.taps; ++k) {
            __m256 w = _mm256_maskload_ps(p.tap_weight + k * p.out + o, real);
            __m256i index = _mm256_maskload_epi32(p.tap_index + k * p.out + o, real);
            __m256 read = _mm256_cmp_ps(w, _mm256_setzero_ps(), _CMP_NEQ_UQ);
            sum = _mm256_fmadd_ps(w, _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, index, read, 4), sum);
        }
        _mm256_maskstore_ps(y + o, real, sum);
    }
}

}  // namespace
}  // namespace refactor::kernel

#include "resize/resize_pass_impl.h"

namespace refactor::kernel {

ResizeFunctions const& resize_functions_avx2() {
    static constexpr ResizeFunctions kFunctions{resize<float>, blend<float>};
    return kFunctions;
}

}  // namespace refactor::kernel
