#pragma once
#include <cstdint>

#include <immintrin.h>

// Sixteen 32-bit integers. `integer_lanes_avx2.h` offers the same names for eight. Internal linkage.

#define RG_SIMD [[gnu::always_inline]] inline

namespace refactor::kernel {
namespace {

struct Lanes {
    static constexpr int width = 16;
    __m512i v;

    RG_SIMD static Lanes zero() { return {_mm512_setzero_si512()}; }
    RG_SIMD static Lanes set(int32_t x) { return {_mm512_set1_epi32(x)}; }
    RG_SIMD static Lanes load(void const* p) { return {_mm512_loadu_si512(p)}; }
    RG_SIMD static Lanes load_bytes(uint8_t const* p) {  ///< zero-extended
        return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)))};
    }
    RG_SIMD static Lanes load_signed(uint8_t const* p) {
        return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(p)))};
    }
    RG_SIMD void store(void* p) const { _mm512_storeu_si512(p, v); }
    /// The lowest byte of each, of the first `n` only; fewer than `width`.
    RG_SIMD void store_bytes(void* p, int64_t n) const {
        _mm_mask_storeu_epi8(p, static_cast<__mmask16>((1u << n) - 1), _mm512_cvtepi32_epi8(v));
    }
    RG_SIMD void store_bytes(void* p) const { _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v)); }
};
RG_SIMD Lanes operator+(Lanes a, Lanes b) { return {_mm512_add_epi32(a.v, b.v)}; }
RG_SIMD Lanes operator-(Lanes a, Lanes b) { return {_mm512_sub_epi32(a.v, b.v)}; }
RG_SIMD Lanes operator*(Lanes a, Lanes b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
RG_SIMD Lanes operator<<(Lanes a, unsigned n) { return {_mm512_slli_epi32(a.v, n)}; }
RG_SIMD Lanes operator>>(Lanes a, unsigned n) { return {_mm512_srai_epi32(a.v, n)}; }
/// c + sums of two products of i16.
RG_SIMD Lanes dot_words(Lanes c, Lanes a, Lanes b) {
#ifdef __AVX512VNNI__
    return {_mm512_dpwssd_epi32(c.v, a.v, b.v)};
#else
    return {_mm512_add_epi32(c.v, _mm512_madd_epi16(a.v, b.v))};
#endif
}

/// Thirty-two 16-bit integers.
struct Words {
    static constexpr int width = 32;
    using Part = __mmask32;
    __m512i v;

    RG_SIMD static Words zero() { return {_mm512_setzero_si512()}; }
    RG_SIMD static Words set(int32_t x) { return {_mm512_set1_epi16(static_cast<int16_t>(x))}; }
    /// The first `n`, which may be more than `width`.
    RG_SIMD static Part first(int64_t n) { return n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1; }
    /// The others are zero.
    RG_SIMD static Words load_bytes(uint8_t const* p, Part part, bool is_signed) {
        __m256i bytes = _mm256_maskz_loadu_epi8(part, p);
        return {is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes)};
    }
    RG_SIMD void store(void* p) const { _mm512_storeu_si512(p, v); }
};
RG_SIMD Words operator+(Words a, Words b) { return {_mm512_add_epi16(a.v, b.v)}; }
RG_SIMD Words operator-(Words a, Words b) { return {_mm512_sub_epi16(a.v, b.v)}; }
RG_SIMD Words operator<<(Words a, unsigned n) { return {_mm512_slli_epi16(a.v, n)}; }

struct Floats {
    __m512 v;
    RG_SIMD static Floats set(float x) { return {_mm512_set1_ps(x)}; }
    RG_SIMD static Floats load(float const* p) { return {_mm512_loadu_ps(p)}; }
    RG_SIMD void store(void* p) const { _mm512_storeu_ps(p, v); }
};
RG_SIMD Floats to_float(Lanes a) { return {_mm512_cvtepi32_ps(a.v)}; }
RG_SIMD Lanes round(Floats a) { return {_mm512_cvtps_epi32(a.v)}; }
RG_SIMD Floats round_float(Floats a) { return {_mm512_roundscale_ps(a.v, 8)}; }
RG_SIMD Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
RG_SIMD Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
RG_SIMD Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
RG_SIMD Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
/// As the instruction: if either is NaN, the result is `b`.
RG_SIMD Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
RG_SIMD Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }

}  // namespace
}  // namespace refactor::kernel
