#pragma once
// Floats rounded to nearest bf16 (denormals to zero), two in a lane. Include `vec_avx512.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

/// 32 floats in order: lane i holds 2i (its low half) and 2i + 1.
RG_SIMD Vec round_to_pairs(Vec low, Vec high) {
    return {__builtin_bit_cast(__m512, _mm512_cvtne2ps_pbh(high.v, low.v))};
}

/// The first `n` in [0, 32] of such numbers.
RG_SIMD void store_first_of_pairs(Vec pairs, uint16_t* p, int n) {
    auto words = _mm512_castps_si512(pairs.v);
    if (n == 32)
        _mm512_storeu_si512(p, words);
    else
        _mm512_mask_storeu_epi16(p, (1U << n) - 1, words);
}

/// Lane i holds lane i of `even` (its low half) and of `odd`.
RG_SIMD Vec round_side_by_side(Vec even, Vec odd) {
    alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    auto words = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(odd.v, even.v));
    return {_mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_loadu_si512(kOrder), words))};
}

/// The first `n` in [0, 32] numbers of bf16, zeros for the others, whose memory is not touched.
RG_SIMD Vec load_pairs(uint16_t const* p, int n) {
    if (n == 32) return {_mm512_castsi512_ps(_mm512_loadu_si512(p))};
    return {_mm512_castsi512_ps(_mm512_maskz_loadu_epi16((1U << n) - 1, p))};
}

/// Lane i holds element i of `even` (its low half) and of `odd` (null: zeros), of which the first `n` in [0, 16] are
/// read.
RG_SIMD Vec side_by_side(uint16_t const* even, uint16_t const* odd, int n) {
    auto const read = static_cast<__mmask16>((1U << n) - 1);
    auto widened = [&](uint16_t const* p) __attribute__((always_inline)) {
        return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(read, p));
    };
    auto low = widened(even);
    if (!odd) return {_mm512_castsi512_ps(low)};
    return {_mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(widened(odd), 16)))};
}

}  // namespace
}  // namespace refactor::kernel
