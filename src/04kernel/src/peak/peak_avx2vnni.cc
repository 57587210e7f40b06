#include "peak/peak.h"

#include <immintrin.h>

namespace refactor::kernel {

int32_t dot_avx2vnni(int64_t rounds) {
    __m256i sums[kPeakChains];
    for (auto& sum : sums) sum = _mm256_setzero_si256();
    auto ones = _mm256_set1_epi8(1);
    for (int64_t i = 0; i < rounds; ++i)
        for (auto& sum : sums) sum = _mm256_dpbusd_avx_epi32(sum, ones, ones);
    auto total = sums[0];
    for (auto const& sum : sums) total = _mm256_add_epi32(total, sum);
    return _mm_cvtsi128_si32(_mm256_castsi256_si128(total));
}

}  // namespace refactor::kernel
