#include "peak/peak.h"

#include <immintrin.h>

namespace refactor::kernel {

int32_t dot_avx512vnni(int64_t rounds) {
    __m512i sums[kPeakChains];
    for (auto& sum : sums) sum = _mm512_setzero_si512();
    auto ones = _mm512_set1_epi8(1);
    for (int64_t i = 0; i < rounds; ++i)
        for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, ones, ones);
    auto total = sums[0];
    for (auto const& sum : sums) total = _mm512_add_epi32(total, sum);
    return _mm_cvtsi128_si32(_mm512_castsi512_si128(total));
}

}  // namespace refactor::kernel
