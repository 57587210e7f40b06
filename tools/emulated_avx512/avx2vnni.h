#pragma once
// AVX-VNNI in AVX2: read before every `*_avx2vnni.cc` of a build with RG_EMULATE_AVX512. Results are those of the
// instructions to the bit.

#include <immintrin.h>

#ifndef __AVXVNNI__
#define __AVXVNNI__ 1
#endif

namespace refactor {
namespace {

[[gnu::always_inline, maybe_unused]] inline __m256i _mm256_dpwssd_avx_epi32(__m256i c, __m256i a, __m256i b) {
    return _mm256_add_epi32(c, _mm256_madd_epi16(a, b));
}
/// Bytes as words, even and odd ones apart, whose products of two fit i32.
[[gnu::always_inline, maybe_unused]] inline __m256i _mm256_dpbusd_avx_epi32(__m256i c, __m256i a, __m256i b) {
    __m256i even =
        _mm256_madd_epi16(_mm256_and_si256(a, _mm256_set1_epi16(0xff)), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
    __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(a, 8), _mm256_srai_epi16(b, 8));
    return _mm256_add_epi32(c, _mm256_add_epi32(even, odd));
}

}  // namespace
}  // namespace refactor
