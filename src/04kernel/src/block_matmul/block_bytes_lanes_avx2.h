#pragma once
#include "simd/vec_avx2.h"

// Lanes of AVX2 for `block_bytes_impl.h`. Internal linkage.

namespace refactor::kernel {
namespace {

struct Ints {
    __m256i v;
    RG_SIMD static Ints set(int32_t x) { return {_mm256_set1_epi32(x)}; }
    RG_SIMD static Ints load_bytes(uint8_t const* p) {
        return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(p)))};
    }
    RG_SIMD int32_t largest() const {
        __m128i x = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
        return _mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
    }
    RG_SIMD int32_t total() const {
        __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
        return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
    }
};
RG_SIMD Ints operator+(Ints a, Ints b) { return {_mm256_add_epi32(a.v, b.v)}; }
RG_SIMD Ints max(Ints a, Ints b) { return {_mm256_max_epi32(a.v, b.v)}; }
RG_SIMD Ints as_ints(Vec a) { return {_mm256_castps_si256(a.v)}; }
RG_SIMD Ints rounded(Vec a) { return {_mm256_cvtps_epi32(a.v)}; }
/// Products of the lower i16 of each lane; the upper ones of `a` are 0.
RG_SIMD Ints multiply_low(Ints a, Ints b) { return {_mm256_madd_epi16(a.v, b.v)}; }

/// A dword of each of W columns, or one of its parts.
struct Numbers {
    __m256i v;
    RG_SIMD static Numbers load(uint32_t const* q) { return {_mm256_loadu_si256(reinterpret_cast<__m256i const*>(q))}; }
    template <int bits>
    RG_SIMD Numbers part(int i) const {
        __m256i shifted = i ? _mm256_srli_epi32(v, i * bits) : v;
        if (bits == 8) return {shifted};
        return {_mm256_and_si256(shifted, _mm256_set1_epi8(static_cast<char>((1 << bits) - 1)))};
    }
};

/// Sixteen elements, saturated, in the order of the parts of dwords.
struct Order {
    __m128i v;
    RG_SIMD explicit Order(int32_t bits)
        : v(bits == 2   ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
            : bits == 4 ? _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)
                        : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)) {}
    RG_SIMD void store(Ints const (&x)[2], int8_t* target) const {
        auto half = [](Ints y) __attribute__((always_inline)) {
            return _mm_packs_epi32(_mm256_castsi256_si128(y.v), _mm256_extracti128_si256(y.v, 1));
        };
        _mm_storeu_si128(reinterpret_cast<__m128i*>(target),
                         _mm_shuffle_epi8(_mm_packs_epi16(half(x[0]), half(x[1])), v));
    }
};

}  // namespace
}  // namespace refactor::kernel
