#pragma once
// Vectors of floats out of smaller elements; include `vec_*.h` first. Internal linkage.
#include "matmul/product.h"

namespace refactor::kernel {
namespace {

constexpr int bytes_of(WeightType type) { return type == WeightType::F32 ? 4 : type == WeightType::I8 ? 1 : 2; }

template <WeightType type>
RG_SIMD Vec widen(std::byte const* p) {
#ifdef __AVX512F__
    if constexpr (type == WeightType::F16)
        return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p)))};
    else if constexpr (type == WeightType::BF16)
        return {_mm512_castsi512_ps(
            _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p))), 16))};
    else
        return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p))))};
#else
    if constexpr (type == WeightType::F16)
        return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)))};
    else if constexpr (type == WeightType::BF16)
        return {_mm256_castsi256_ps(
            _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p))), 16))};
    else
        return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(p))))};
#endif
}

}  // namespace
}  // namespace refactor::kernel
