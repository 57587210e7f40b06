#include "peak/peak.h"

#include <immintrin.h>

namespace refactor::kernel {

float multiply_add_avx2(int64_t rounds) {
    __m256 sums[kPeakChains];
    for (auto& sum : sums) sum = _mm256_setzero_ps();
    auto factor = _mm256_set1_ps(0.5f), term = _mm256_set1_ps(1.f);
    for (int64_t i = 0; i < rounds; ++i)
        for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, factor, term);
    auto total = sums[0];
    for (auto const& sum : sums) total = _mm256_add_ps(total, sum);
    return _mm256_cvtss_f32(total);
}

}  // namespace refactor::kernel
