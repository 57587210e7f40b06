#include "resize/resize_pass.h"

#include <immintrin.h>

namespace refactor::kernel {
namespace {

/// Elements of a row at eight indices, where `read` is set, else zeros. Most are within 16 elements: two loads and
/// their permutations are sooner done than a gathering of eight.
__m256 pick(float const* x, int64_t size, __m256i index, __m256 read) {
    int64_t const first = _mm_cvtsi128_si32(_mm256_castsi256_si128(index));
    __m256i near = _mm256_sub_epi32(index, _mm256_set1_epi32(static_cast<int>(first)));
    __m256i far = _mm256_cmpgt_epi32(near, _mm256_set1_epi32(15));
    __m256i out = _mm256_or_si256(far, near);  // the sign bit: behind 16 elements, or in front of the first
    if (first + 16 > size || _mm256_movemask_ps(_mm256_castsi256_ps(out)))
        return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, index, read, 4);
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(x + first), near);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(x + first + 8), near);
    __m256 upper = _mm256_castsi256_ps(_mm256_cmpgt_epi32(near, _mm256_set1_epi32(7)));
    return _mm256_and_ps(_mm256_blendv_ps(low, high, upper), read);
}

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
            sum = _mm256_fmadd_ps(w, pick(x, p.in, index, read), sum);
        }
        // Masked stores are microcode on AMD's processors up to Zen 3.
        left < 8 ? _mm256_maskstore_ps(y + o, real, sum) : _mm256_storeu_ps(y + o, sum);
    }
}

void pick_words(int32_t const* index, int64_t count, uint32_t const* x, int64_t size, uint32_t* y) {
    __m256 const all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i at = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(index + i));
        _mm256_storeu_ps(reinterpret_cast<float*>(y + i), pick(reinterpret_cast<float const*>(x), size, at, all));
    }
    for (; i < count; ++i) y[i] = x[index[i]];
}

}  // namespace
}  // namespace refactor::kernel

#include "resize/resize_pass_impl.h"

namespace refactor::kernel {

ResizeFunctions const& resize_functions_avx2() {
    static constexpr ResizeFunctions kFunctions{resize<float>, blend<float>, widen_row, blend_narrow, pick_words};
    return kFunctions;
}

}  // namespace refactor::kernel
