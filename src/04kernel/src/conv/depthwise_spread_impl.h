#pragma once
#include "conv/depthwise.h"

// Channels that serve several outputs each, put under these. Include a `simd/lanes_*.h` first.

namespace refactor::kernel {
namespace {

#ifdef __AVX512F__

/// Lanes of two blocks of words or, where elements are bf16, of halves of words.
RG_SIMD __m512i of_either(__m512i first, __m512i second, __m512i lanes, [[maybe_unused]] __mmask32 second_block) {
    if constexpr (sizeof(Stored) == sizeof(float)) {
        return _mm512_castps_si512(
            _mm512_permutex2var_ps(_mm512_castsi512_ps(first), lanes, _mm512_castsi512_ps(second)));
    } else {
        return _mm512_mask_blend_epi16(second_block, _mm512_permutexvar_epi16(lanes, first),
                                       _mm512_permutexvar_epi16(lanes, second));
    }
}

void spread(SpreadJobOf<Stored> const& job) {
    auto const j = job;  // stores might alias what is not a local variable
    constexpr int kBlock = 64 / sizeof(Stored);
    auto lanes = _mm512_loadu_si512(j.from);
    __mmask32 second_block = 0;
    if constexpr (sizeof(Stored) == sizeof(uint16_t)) {
        alignas(64) uint16_t halves[kBlock];
        for (int lane = 0; lane < kBlock; ++lane) {
            halves[lane] = static_cast<uint16_t>(j.from[lane]);
            second_block |= static_cast<__mmask32>(j.from[lane] >= kBlock) << lane;
        }
        lanes = _mm512_load_si512(halves);
    }
    auto const *first = j.x, *second = j.x + j.x_block;
    for (int64_t i = 0; i < j.positions; ++i, first += kBlock, second += kBlock)
        _mm512_storeu_si512(j.y + i * kBlock,
                            of_either(_mm512_loadu_si512(first), _mm512_loadu_si512(second), lanes, second_block));
}

#else

void spread(SpreadJobOf<Stored> const& job) {
    auto const j = job;  // stores might alias what is not a local variable
    constexpr int kBlock = 8;
    alignas(32) int32_t of_first[kBlock], of_second[kBlock];
    for (int lane = 0; lane < kBlock; ++lane)
        of_first[lane] = j.from[lane] % kBlock, of_second[lane] = j.from[lane] < kBlock ? 0 : -1;
    auto const lanes = _mm256_load_si256(reinterpret_cast<__m256i const*>(of_first));
    auto const is_second = _mm256_castsi256_ps(_mm256_load_si256(reinterpret_cast<__m256i const*>(of_second)));
    auto const *first = j.x, *second = j.x + j.x_block;
    for (int64_t i = 0; i < j.positions; ++i, first += kBlock, second += kBlock)
        _mm256_storeu_ps(j.y + i * kBlock,
                         _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(first), lanes),
                                          _mm256_permutevar8x32_ps(_mm256_loadu_ps(second), lanes), is_second));
}

#endif

}  // namespace
}  // namespace refactor::kernel
