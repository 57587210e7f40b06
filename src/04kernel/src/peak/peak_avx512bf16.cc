#include "peak/peak.h"

#include <immintrin.h>

namespace refactor::kernel {

float dot_avx512bf16(int64_t rounds) {
    __m512 sums[kPeakChains];
    for (auto& sum : sums) sum = _mm512_setzero_ps();
    auto ones = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1), _mm512_set1_ps(1));
    for (int64_t i = 0; i < rounds; ++i)
        for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, ones, ones);
    auto total = sums[0];
    for (auto const& sum : sums) total = _mm512_add_ps(total, sum);
    return _mm512_reduce_add_ps(total);
}

}  // namespace refactor::kernel
