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

int32_t dot_avx2(int64_t rounds) {
    // An addition takes a cycle: few chains will do, and the compiler keeps them in registers.
    constexpr int64_t kChains = 4;
    __m256i sums[kChains];
    for (auto& sum : sums) sum = _mm256_setzero_si256();
    auto words = _mm256_set1_epi16(1), ones = words;
    for (int64_t i = 0; i < rounds * kPeakChains / kChains; ++i)
        for (auto& sum : sums) {
            asm volatile("" : "+x"(words));  // Each product is one of its own to the compiler.
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(words, ones));
        }
    auto total = sums[0];
    for (auto const& sum : sums) total = _mm256_add_epi32(total, sum);
    return _mm_cvtsi128_si32(_mm256_castsi256_si128(total));
}

}  // namespace refactor::kernel
