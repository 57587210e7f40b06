#pragma once
// Remainders of f32. Internal linkage.
#include "elementwise/tile_loops.h"

#include <immintrin.h>

namespace refactor::kernel::elementwise {
namespace {

/// a - trunc(a / b) b of four, in f64: exact where |a / b| is below 2^28 and b is finite, which `exact` tells. There a
/// quotient that is no integer is at least 2^-24 away from one, more than f64 rounds it by, and the product has 24 + 28
/// bits.
RG_INLINE __m128 remainder_of_four(__m128 a, __m128 b, bool& exact) {
    __m256d x = _mm256_cvtps_pd(a), y = _mm256_cvtps_pd(b), size = _mm256_set1_pd(-0.);
    __m256d quotient = _mm256_round_pd(_mm256_div_pd(x, y), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    __m256d small = _mm256_cmp_pd(_mm256_andnot_pd(size, quotient), _mm256_set1_pd(0x1p28), _CMP_LT_OQ);
    __m256d finite = _mm256_cmp_pd(_mm256_andnot_pd(size, y), _mm256_set1_pd(0x1p128), _CMP_LT_OQ);
    exact = _mm256_movemask_pd(_mm256_and_pd(small, finite)) == 15;
    return _mm256_cvtpd_ps(_mm256_fnmadd_pd(quotient, y, x));
}

/// A zero has the sign of a in Fmod, that of b in Mod; other results of Mod the sign of b.
template <ExprOp kOp>
RG_INLINE __m128 signed_remainder(__m128 rest, __m128 a, __m128 b) {
    __m128 sign = _mm_set1_ps(-0.f), zero = _mm_cmpeq_ps(rest, _mm_setzero_ps());
    if constexpr (kOp == ExprOp::Fmod) return _mm_or_ps(rest, _mm_and_ps(zero, _mm_and_ps(a, sign)));
    __m128 turns = _mm_castsi128_ps(_mm_srai_epi32(_mm_castps_si128(_mm_xor_ps(rest, b)), 31));
    __m128 moved = _mm_add_ps(rest, _mm_and_ps(turns, b));
    return _mm_blendv_ps(moved, _mm_and_ps(b, sign), zero);
}

template <ExprOp kOp>
void remainder_f32(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<float const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_b = mask_of(op, 1);
    for (int64_t i = 0; i < n; i += 4) {
        auto const *from_a = a + (i & mask_a), *from_b = b + (i & mask_b);
        bool exact = false;
        if (i + 4 <= n) {
            __m128 x = _mm_loadu_ps(from_a), y = _mm_loadu_ps(from_b), rest = remainder_of_four(x, y, exact);
            if (exact) _mm_storeu_ps(out + i, signed_remainder<kOp>(rest, x, y));
        }
        if (!exact) exact_f32_remainder(kOp, from_a, from_b, out + i, i + 4 <= n ? 4 : n - i);
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
