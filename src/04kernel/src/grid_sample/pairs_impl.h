#pragma once
#include "grid_sample/pairs.h"

#include <immintrin.h>

// For files with AVX2.

namespace refactor::kernel {
namespace {

#define RG_PAIRS [[gnu::always_inline]] inline

/// Pairs at a, b | c, d. Loads that broadcast and blends keep off the one port that shuffles.
RG_PAIRS __m256 load_pairs(float const* x, int32_t a, int32_t b, int32_t c, int32_t d) {
    auto pair = [&](int32_t i) { return _mm256_broadcast_sd(reinterpret_cast<double const*>(x + i)); };
    __m256d low = _mm256_blend_pd(pair(a), pair(b), 0b0010), high = _mm256_blend_pd(pair(c), pair(d), 0b1000);
    return _mm256_castpd_ps(_mm256_blend_pd(low, high, 0b1100));
}

/// Eight positions from `first` on.
template <bool kMasked>
RG_PAIRS __m256 blend_eight(PairBlock const& block, int pairs, int step, int first, float const* x) {
    __m256 sums[2]{_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int k = 0; k < pairs; ++k) {
        int i = k * step + first;
        int32_t const* s = block.start + i;
        __m256 values[2]{load_pairs(x, s[0], s[1], s[4], s[5]), load_pairs(x, s[2], s[3], s[6], s[7])};
        for (int half = 0; half < 2; ++half) {
            if constexpr (kMasked) {
                auto* mask = reinterpret_cast<float const*>(block.mask + 2 * i + 8 * half);
                values[half] = _mm256_and_ps(values[half], _mm256_loadu_ps(mask));
            }
            sums[half] = _mm256_fmadd_ps(values[half], _mm256_loadu_ps(block.weight + 2 * i + 8 * half), sums[half]);
        }
    }
    return _mm256_add_ps(_mm256_shuffle_ps(sums[0], sums[1], 0x88), _mm256_shuffle_ps(sums[0], sums[1], 0xdd));
}

RG_PAIRS __m256i first_of_eight(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

template <bool kMasked>
RG_PAIRS void blend_pairs(PairBlock const& block, int pairs, int positions, float const* x, float* y) {
    int const step = pair_step(positions), whole = positions / 8 * 8;
    for (int p = 0; p < whole; p += 8) _mm256_storeu_ps(y + p, blend_eight<kMasked>(block, pairs, step, p, x));
    if (whole < positions)
        _mm256_maskstore_ps(y + whole, first_of_eight(positions - whole),
                            blend_eight<kMasked>(block, pairs, step, whole, x));
}

}  // namespace
}  // namespace refactor::kernel
