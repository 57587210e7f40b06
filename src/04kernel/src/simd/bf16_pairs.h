#pragma once
// Floats rounded to nearest bf16 (denormals to zero), two in a lane. Include `vec_avx512.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

/// 32 floats in order: lane i holds 2i (its low half) and 2i + 1.
RG_SIMD Vec round_to_pairs(Vec low, Vec high) {
    return {__builtin_bit_cast(__m512, _mm512_cvtne2ps_pbh(high.v, low.v))};
}

/// Lane i holds lane i of `even` (its low half) and of `odd`.
RG_SIMD Vec round_side_by_side(Vec even, Vec odd) {
    alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    auto words = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(odd.v, even.v));
    return {_mm512_castsi512_ps(_mm512_permutexvar_epi16(_mm512_loadu_si512(kOrder), words))};
}

}  // namespace
}  // namespace refactor::kernel
