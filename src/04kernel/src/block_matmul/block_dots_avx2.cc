#include "simd/vec_avx2.h"

#include <cstdint>

namespace refactor::kernel {
namespace {

/// Eight words.
struct Words {
    __m256i v;
};
RG_SIMD Words words_of(uint8_t const* q) { return {_mm256_loadu_si256(reinterpret_cast<__m256i const*>(q))}; }
RG_SIMD Words words_of(Vec x) { return {_mm256_castps_si256(x.v)}; }
/// The first `n` words; zeros behind.
RG_SIMD Words first_words_of(uint8_t const* q, int n) {
    return {_mm256_maskload_epi32(reinterpret_cast<int const*>(q), _mm256_castps_si256(first_lanes(n).m))};
}
/// Number `part` of each word.
template <int bits>
RG_SIMD Vec numbers_at(Words w, int part) {
    __m256i shifted = _mm256_srli_epi32(w.v, part * bits);
    return {_mm256_cvtepi32_ps(_mm256_and_si256(shifted, _mm256_set1_epi32((1 << bits) - 1)))};
}
/// Each of the first lanes 2^shift times.
RG_SIMD Vec spread(Vec x, int shift) {
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_permutevar8x32_ps(x.v, _mm256_srl_epi32(lanes, _mm_cvtsi32_si128(shift)))};
}

}  // namespace
}  // namespace refactor::kernel

// Written against what is above.
#include "block_matmul/block_dots_impl.h"

namespace refactor::kernel {

BlockDotsFunctions const& block_dots_avx2() { return kFunctions; }

}  // namespace refactor::kernel
