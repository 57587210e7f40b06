#pragma once
#include <cstdint>

#include <immintrin.h>

// Eight 32-bit integers; see `integer_lanes_avx512.h`.

#define RG_SIMD [[gnu::always_inline]] inline

namespace refactor::kernel {
namespace {

struct Lanes {
    static constexpr int width = 8;
    __m256i v;

    RG_SIMD static Lanes zero() { return {_mm256_setzero_si256()}; }
    RG_SIMD static Lanes set(int32_t x) { return {_mm256_set1_epi32(x)}; }
    RG_SIMD static Lanes load(void const* p) { return {_mm256_loadu_si256(static_cast<__m256i const*>(p))}; }
    RG_SIMD static Lanes load_bytes(uint8_t const* p) {  ///< zero-extended
        return {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(p)))};
    }
    RG_SIMD static Lanes load_signed(uint8_t const* p) {
        return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(p)))};
    }
    RG_SIMD void store(void* p) const { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
    /// Of the first `n` only; fewer than `width`.
    RG_SIMD void store_bytes(uint8_t* p, int64_t n) const {
        alignas(8) uint8_t all[8];
        store_bytes(all);
        for (int64_t i = 0; i < n; ++i) p[i] = all[i];
    }
    RG_SIMD static Lanes load_some(uint8_t const* p, int64_t n, bool is_signed) {
        alignas(8) uint8_t all[8] = {};
        for (int64_t i = 0; i < n; ++i) all[i] = p[i];
        return is_signed ? load_signed(all) : load_bytes(all);
    }
    /// The lowest byte of each.
    RG_SIMD void store_bytes(void* p) const {
        __m256i low = _mm256_shuffle_epi8(v, _mm256_set1_epi32(0x0c080400));
        __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
        _mm_storel_epi64(static_cast<__m128i*>(p), both);
    }
};
RG_SIMD Lanes operator+(Lanes a, Lanes b) { return {_mm256_add_epi32(a.v, b.v)}; }
RG_SIMD Lanes operator-(Lanes a, Lanes b) { return {_mm256_sub_epi32(a.v, b.v)}; }
RG_SIMD Lanes operator*(Lanes a, Lanes b) { return {_mm256_mullo_epi32(a.v, b.v)}; }
RG_SIMD Lanes operator<<(Lanes a, int n) { return {_mm256_slli_epi32(a.v, n)}; }
RG_SIMD Lanes operator>>(Lanes a, int n) { return {_mm256_srai_epi32(a.v, n)}; }
/// c + sums of two products of i16. The compiler must not regroup many of them, nor let the product's register become
/// the sum's: it would keep sums on the stack.
RG_SIMD Lanes dot_words(Lanes c, Lanes a, Lanes b) {
#ifdef __AVXVNNI__
    return {_mm256_dpwssd_avx_epi32(c.v, a.v, b.v)};
#else
    asm("vpaddd %1, %0, %0" : "+x"(c.v) : "x"(_mm256_madd_epi16(a.v, b.v)));
    return c;
#endif
}

#ifdef __AVXVNNI__
/// c + sums of four products of bytes, a unsigned and b signed.
RG_SIMD Lanes dot_quads(Lanes c, Lanes a, Lanes b) { return {_mm256_dpbusd_avx_epi32(c.v, a.v, b.v)}; }
#endif

/// c + sums of four products of bytes, a unsigned and b signed, of which neighbours must not sum to more than i16
/// holds. One temporary: with two, the compiler would keep sums on the stack.
RG_SIMD Lanes dot_bytes(Lanes c, Lanes a, Lanes b) {
    alignas(32) static constexpr int16_t kOnes[16]{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    __m256i pairs;
    asm("vpmaddubsw %3, %2, %1\n\tvpmaddwd %4, %1, %1\n\tvpaddd %1, %0, %0"
        : "+x"(c.v), "=&x"(pairs)
        : "x"(a.v), "xm"(b.v), "m"(kOnes));
    return c;
}

/// Sixteen 16-bit integers.
struct Words {
    static constexpr int width = 16;
    using Part = int64_t;
    __m256i v;

    RG_SIMD static Words zero() { return {_mm256_setzero_si256()}; }
    RG_SIMD static Words set(int32_t x) { return {_mm256_set1_epi16(static_cast<int16_t>(x))}; }
    /// The first `n`, which may be more than `width`.
    RG_SIMD static Part first(int64_t n) { return n; }
    /// The others are zero.
    RG_SIMD static Words load_bytes(uint8_t const* p, Part n, bool is_signed) {
        alignas(16) uint8_t part[16] = {};
        if (n < 16) {
            for (int64_t i = 0; i < n; ++i) part[i] = p[i];
            p = part;
        }
        __m128i bytes = _mm_loadu_si128(reinterpret_cast<__m128i const*>(p));
        return {is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes)};
    }
    RG_SIMD void store(void* p) const { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
};
RG_SIMD Words operator+(Words a, Words b) { return {_mm256_add_epi16(a.v, b.v)}; }
RG_SIMD Words operator-(Words a, Words b) { return {_mm256_sub_epi16(a.v, b.v)}; }
RG_SIMD Words operator<<(Words a, int n) { return {_mm256_slli_epi16(a.v, n)}; }

struct Floats {
    __m256 v;
    RG_SIMD static Floats set(float x) { return {_mm256_set1_ps(x)}; }
    RG_SIMD static Floats load(float const* p) { return {_mm256_loadu_ps(p)}; }
    RG_SIMD void store(void* p) const { _mm256_storeu_ps(static_cast<float*>(p), v); }
};
RG_SIMD Floats to_float(Lanes a) { return {_mm256_cvtepi32_ps(a.v)}; }
RG_SIMD Lanes round(Floats a) { return {_mm256_cvtps_epi32(a.v)}; }
RG_SIMD Floats round_float(Floats a) { return {_mm256_round_ps(a.v, 8)}; }
RG_SIMD Floats operator+(Floats a, Floats b) { return {_mm256_add_ps(a.v, b.v)}; }
RG_SIMD Floats operator-(Floats a, Floats b) { return {_mm256_sub_ps(a.v, b.v)}; }
RG_SIMD Floats operator*(Floats a, Floats b) { return {_mm256_mul_ps(a.v, b.v)}; }
RG_SIMD Floats operator/(Floats a, Floats b) { return {_mm256_div_ps(a.v, b.v)}; }
/// As the instruction: if either is NaN, the result is `b`.
RG_SIMD Floats max(Floats a, Floats b) { return {_mm256_max_ps(a.v, b.v)}; }
RG_SIMD Floats min(Floats a, Floats b) { return {_mm256_min_ps(a.v, b.v)}; }

}  // namespace
}  // namespace refactor::kernel
