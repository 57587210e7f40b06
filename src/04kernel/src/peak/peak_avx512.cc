#include "peak/peak.h"

#include <immintrin.h>

namespace refactor::kernel {

float multiply_add_avx512(int64_t rounds) {
    __m512 sums[kPeakChains];
    for (auto& sum : sums) sum = _mm512_setzero_ps();
    auto factor = _mm512_set1_ps(0.5f), term = _mm512_set1_ps(1.f);
    for (int64_t i = 0; i < rounds; ++i)
        for (auto& sum : sums) sum = _mm512_fmadd_ps(sum, factor, term);
    auto total = sums[0];
    for (auto const& sum : sums) total = _mm512_add_ps(total, sum);
    return _mm512_cvtss_f32(total);
}

}  // namespace refactor::kernel
