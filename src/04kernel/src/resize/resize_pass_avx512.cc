#include "resize/resize_pass.h"

#include <immintrin.h>

namespace refactor::kernel {
namespace {

/// Elements of a row at sixteen indices, where `read` is set, else zeros. Most are within 32 elements, whose
/// permutation is sooner done than a gathering of sixteen.
__m512 pick(float const* x, int64_t size, __m512i index, __mmask16 read) {
    int64_t const first = _mm_cvtsi128_si32(_mm512_castsi512_si128(index));
    __m512i near = _mm512_sub_epi32(index, _mm512_set1_epi32(static_cast<int>(first)));
    __mmask16 far = _mm512_mask_cmpgt_epu32_mask(read, near, _mm512_set1_epi32(31));
    if (far) return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), read, index, x, 4);
    int64_t const left = size - first;
    auto some = [&](int64_t n) { return static_cast<__mmask16>(n >= 16 ? 0xffff : n > 0 ? (1 << n) - 1 : 0); };
    __m512 low = _mm512_maskz_loadu_ps(some(left), x + first);
    __m512 high = _mm512_maskz_loadu_ps(some(left - 16), x + first + 16);
    return _mm512_maskz_permutex2var_ps(read, low, near, high);
}

/// Sixteen elements of Y at a time, one tap after the other.
void sample_row(ResizePass const& p, float const* x, float* y) {
    for (int64_t o = 0; o < p.out; o += 16) {
        int64_t left = p.out - o;
        __mmask16 real = static_cast<__mmask16>(left < 16 ? (1 << left) - 1 : 0xffff);
        __m512 sum = _mm512_setzero_ps();
        for (int64_t k = 0; k < p.taps; ++k) {
            __m512 w = _mm512_maskz_loadu_ps(real, p.tap_weight + k * p.out + o);
            __m512i index = _mm512_maskz_loadu_epi32(real, p.tap_index + k * p.out + o);
            __mmask16 read = _mm512_cmp_ps_mask(w, _mm512_setzero_ps(), _CMP_NEQ_UQ);
            sum = _mm512_fmadd_ps(w, pick(x, p.in, index, read), sum);
        }
        _mm512_mask_storeu_ps(y + o, real, sum);
    }
}

void pick_words(int32_t const* index, int64_t count, uint32_t const* x, int64_t size, uint32_t* y) {
    for (int64_t i = 0; i < count; i += 16) {
        __mmask16 real = static_cast<__mmask16>(count - i < 16 ? (1 << (count - i)) - 1 : 0xffff);
        __m512i at = _mm512_maskz_loadu_epi32(real, index + i);
        _mm512_mask_storeu_ps(y + i, real, pick(reinterpret_cast<float const*>(x), size, at, real));
    }
}

}  // namespace
}  // namespace refactor::kernel

#include "resize/resize_pass_impl.h"

namespace refactor::kernel {

ResizeFunctions const& resize_functions_avx512() {
    static ResizeFunctions const kFunctions{resize<float>, resize_functions_avx2().blend, widen_row, blend_narrow,
                                            pick_words};
    return kFunctions;
}

}  // namespace refactor::kernel
