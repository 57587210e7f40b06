#include "simd/vec_avx512.h"

#include <cstdint>

namespace refactor::kernel {
namespace {

/// Sixteen words.
struct Words {
    __m512i v;
};
RG_SIMD Words words_of(uint8_t const* q) { return {_mm512_loadu_si512(q)}; }
RG_SIMD Words words_of(Vec x) { return {_mm512_castps_si512(x.v)}; }
/// The first `n` words; zeros behind.
RG_SIMD Words first_words_of(uint8_t const* q, int n) {
    return {_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << n) - 1u), q)};
}
/// Number `part` of each word.
template <int bits>
RG_SIMD Vec numbers_at(Words w, int part) {
    __m512i shifted = _mm512_srli_epi32(w.v, static_cast<unsigned>(part * bits));
    // The permutation looks at four bits of an index: a table converts without a mask.
    if constexpr (bits == 4)
        return {_mm512_permutexvar_ps(shifted, _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))};
    else
        return {_mm512_cvtepi32_ps(_mm512_and_si512(shifted, _mm512_set1_epi32((1 << bits) - 1)))};
}
/// Each of the first lanes 2^shift times.
RG_SIMD Vec spread(Vec x, int shift) {
    __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return {_mm512_permutexvar_ps(_mm512_srl_epi32(lanes, _mm_cvtsi32_si128(shift)), x.v)};
}

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "block_matmul/block_dots_impl.h"

namespace refactor::kernel {

BlockDotsFunctions const& block_dots_avx512() { return kFunctions; }

}  // namespace refactor::kernel
