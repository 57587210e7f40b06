#include "col2im/col2im_band.h"

#include <immintrin.h>

namespace refactor::kernel {

namespace {

__m256i first_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// y[stride · k + i] = from[i · step + k] for four phases.
void weave_four(float const* from, int64_t step, int64_t count, int64_t stride, float* y) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
        __m128 a = _mm_loadu_ps(from + k), b = _mm_loadu_ps(from + step + k), c = _mm_loadu_ps(from + 2 * step + k),
               d = _mm_loadu_ps(from + 3 * step + k);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        _mm_storeu_ps(y + k * stride, a), _mm_storeu_ps(y + (k + 1) * stride, b);
        _mm_storeu_ps(y + (k + 2) * stride, c), _mm_storeu_ps(y + (k + 3) * stride, d);
    }
    for (; k < count; ++k)
        for (int64_t i = 0; i < 4; ++i) y[k * stride + i] = from[i * step + k];
}

void weave_two(float const* from, int64_t step, int64_t count, float* y) {
    int64_t k = 0;
    for (; k + 8 <= count; k += 8) {
        __m256 a = _mm256_loadu_ps(from + k), b = _mm256_loadu_ps(from + step + k);
        __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
        _mm256_storeu_ps(y + 2 * k, _mm256_permute2f128_ps(low, high, 0x20));
        _mm256_storeu_ps(y + 2 * k + 8, _mm256_permute2f128_ps(low, high, 0x31));
    }
    for (; k < count; ++k) y[2 * k] = from[k], y[2 * k + 1] = from[step + k];
}

}  // namespace

void add_tap_avx2(Col2ImTap const& t) {
    __m256i const rest = first_lanes(t.count % 8);
    int64_t const whole = t.count / 8 * 8;
    for (int64_t line = 0; line < t.lines; ++line) {
        float const* from = t.from + line * t.from_step;
        float* to = t.to + line * t.to_step;
        for (int64_t j = 0; j < whole; j += 8)
            _mm256_storeu_ps(to + j, _mm256_add_ps(_mm256_loadu_ps(to + j), _mm256_loadu_ps(from + j)));
        if (whole == t.count) continue;
        __m256 sum = _mm256_add_ps(_mm256_maskload_ps(to + whole, rest), _mm256_maskload_ps(from + whole, rest));
        _mm256_maskstore_ps(to + whole, rest, sum);
    }
}

void weave_phases_avx2(float const* from, int64_t step, int64_t size, int64_t stride, float* y) {
    // Phases before `longer` have `room` elements, the others one less.
    int64_t const room = (size + stride - 1) / stride, longer = size - (room - 1) * stride;
    for (int64_t phase = 0; phase < stride && phase < size;) {
        float const* first = from + phase * step;
        int64_t count = phase < longer ? room : room - 1, last = phase + 3 < longer ? room : room - 1;
        if (stride == 2 && longer == 2) return weave_two(first, step, count, y);
        if (phase + 4 <= stride && last == count) {
            weave_four(first, step, count, stride, y + phase);
            phase += 4;
            continue;
        }
        for (int64_t k = 0; k < count; ++k) y[k * stride + phase] = first[k];
        ++phase;
    }
}

}  // namespace refactor::kernel
