#pragma once
#include <cstdint>

#include <immintrin.h>

// Four doubles, with the names of `vec_avx512.h`, for code that is written against `Vec::Element`; see there.

#define RG_SIMD [[gnu::always_inline]] inline

namespace refactor::kernel {
namespace {

struct Mask {
    __m256d m;
};
RG_SIMD Mask operator&(Mask a, Mask b) { return {_mm256_and_pd(a.m, b.m)}; }
RG_SIMD Mask operator|(Mask a, Mask b) { return {_mm256_or_pd(a.m, b.m)}; }
RG_SIMD bool any(Mask a) { return _mm256_movemask_pd(a.m) != 0; }

/// Lanes [0, n).
RG_SIMD Mask first_lanes(int n) {
    __m256i lanes = _mm256_setr_epi64x(0, 1, 2, 3);
    return {_mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_set1_epi64x(n), lanes))};
}

struct Vec {
    using Element = double;
    static constexpr int width = 4;
    __m256d v;

    RG_SIMD static Vec zero() { return {_mm256_setzero_pd()}; }
    RG_SIMD static Vec set(double x) { return {_mm256_set1_pd(x)}; }
    RG_SIMD static Vec load(double const* p) { return {_mm256_loadu_pd(p)}; }
    RG_SIMD void store(double* p) const { _mm256_storeu_pd(p, v); }
    RG_SIMD static Vec load(float const* p) { return {_mm256_cvtps_pd(_mm_loadu_ps(p))}; }
    RG_SIMD void store(float* p) const { _mm_storeu_ps(p, _mm256_cvtpd_ps(v)); }
    /// First `n` in [0, width] lanes; the others are zero, and their memory is not touched.
    RG_SIMD static Vec load_first(double const* p, int n) {
        return {_mm256_maskload_pd(p, _mm256_castpd_si256(first_lanes(n).m))};
    }
    /// Not by a masked store, see `vec_avx2.h`.
    RG_SIMD void store_first(double* p, int n) const {
        if (n >= width) return store(p);
        __m128d rest = _mm256_castpd256_pd128(v);
        if (n & 2) _mm_storeu_pd(p, rest), rest = _mm256_extractf128_pd(v, 1), p += 2;
        if (n & 1) _mm_store_sd(p, rest);
    }
};

RG_SIMD Vec operator+(Vec a, Vec b) { return {_mm256_add_pd(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a, Vec b) { return {_mm256_sub_pd(a.v, b.v)}; }
RG_SIMD Vec operator*(Vec a, Vec b) { return {_mm256_mul_pd(a.v, b.v)}; }
RG_SIMD Vec operator/(Vec a, Vec b) { return {_mm256_div_pd(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a) { return {_mm256_xor_pd(a.v, _mm256_set1_pd(-0.))}; }
RG_SIMD Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_pd(a.v, b.v, c.v)}; }  ///< a * b + c
/// c += a * b; see `vec_avx2.h`.
RG_SIMD void add_product(Vec& c, Vec a, Vec b) { asm("vfmadd231pd %2, %1, %0" : "+x"(c.v) : "x"(a.v), "x"(b.v)); }
RG_SIMD void add_product(Vec& c, Vec a, double const* b) { add_product(c, a, Vec::set(*b)); }
RG_SIMD Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_pd(a.v, b.v, c.v)}; }  ///< c - a * b
/// As the instruction: if either is NaN, the result is `b`.
RG_SIMD Vec max(Vec a, Vec b) { return {_mm256_max_pd(a.v, b.v)}; }
RG_SIMD Vec min(Vec a, Vec b) { return {_mm256_min_pd(a.v, b.v)}; }
RG_SIMD Vec sqrt(Vec a) { return {_mm256_sqrt_pd(a.v)}; }
RG_SIMD Vec abs(Vec a) { return {_mm256_andnot_pd(_mm256_set1_pd(-0.), a.v)}; }
RG_SIMD Vec round(Vec a) {  ///< to nearest, ties to even
    return {_mm256_round_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
RG_SIMD Vec floor(Vec a) { return {_mm256_round_pd(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
RG_SIMD Vec ceil(Vec a) { return {_mm256_round_pd(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }

RG_SIMD Vec bit_and(Vec a, Vec b) { return {_mm256_and_pd(a.v, b.v)}; }
RG_SIMD Vec bit_or(Vec a, Vec b) { return {_mm256_or_pd(a.v, b.v)}; }
/// |a| with the sign of b.
RG_SIMD Vec copysign(Vec a, Vec b) { return bit_or(abs(a), bit_and(b, Vec::set(-0.))); }

RG_SIMD Mask operator<(Vec a, Vec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_LT_OQ)}; }
RG_SIMD Mask operator<=(Vec a, Vec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_LE_OQ)}; }
RG_SIMD Mask operator>(Vec a, Vec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_GT_OQ)}; }
RG_SIMD Mask operator>=(Vec a, Vec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_GE_OQ)}; }
RG_SIMD Mask operator==(Vec a, Vec b) { return {_mm256_cmp_pd(a.v, b.v, _CMP_EQ_OQ)}; }
RG_SIMD Mask is_nan(Vec a) { return {_mm256_cmp_pd(a.v, a.v, _CMP_UNORD_Q)}; }
/// Lane by lane: mask ? a : b.
RG_SIMD Vec select(Mask mask, Vec a, Vec b) { return {_mm256_blendv_pd(b.v, a.v, mask.m)}; }

/// 2^n for integral n in [-1022, 1023], by the low bits of 1.5 · 2^52 + 1023 + n; 0 for n = -1023.
RG_SIMD Vec power2(Vec n) {
    Vec biased = n + Vec::set(0x1.8p52 + 1023);
    return {_mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(biased.v), 52))};
}
/// a * 2^n for integral n in [-2044, 2046]; overflow gives infinity, underflow a denormal or zero.
RG_SIMD Vec scale2(Vec a, Vec n) {
    Vec half = floor(n * Vec::set(0.5));
    return a * power2(half) * power2(n - half);
}
/// Splits a positive finite a into m * 2^e with m in [1/sqrt 2, sqrt 2).
RG_SIMD Vec split2(Vec a, Vec& e) {
    Mask tiny = a < Vec::set(0x1p-1022);
    __m256i bits = _mm256_castpd_si256(select(tiny, a * Vec::set(0x1p64), a).v);
    // The exponent as the low bits of 2^52, from which the bias is taken away as well.
    __m256i exponent = _mm256_or_si256(_mm256_srli_epi64(bits, 52), _mm256_castpd_si256(_mm256_set1_pd(0x1p52)));
    Vec x = Vec{_mm256_castsi256_pd(exponent)} - Vec::set(0x1p52 + 1023);
    __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi64x(0x000fffffffffffff));
    Vec m{_mm256_castsi256_pd(_mm256_or_si256(fraction, _mm256_castpd_si256(_mm256_set1_pd(1))))};
    x = select(tiny, x - Vec::set(64), x);
    Mask high = m >= Vec::set(1.41421356237309505);
    e = select(high, x + Vec::set(1), x);
    return select(high, m * Vec::set(0.5), m);
}

RG_SIMD double sum(Vec a) {
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}
RG_SIMD double max_of(Vec a) {
    __m128d s = _mm_max_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(s, _mm_unpackhi_pd(s, s)));
}
RG_SIMD double min_of(Vec a) {
    __m128d s = _mm_min_pd(_mm256_castpd256_pd128(a.v), _mm256_extractf128_pd(a.v, 1));
    return _mm_cvtsd_f64(_mm_min_sd(s, _mm_unpackhi_pd(s, s)));
}

/// Transposes a width × width block in registers.
RG_SIMD void transpose(Vec (&r)[4]) {
    __m256d a = _mm256_unpacklo_pd(r[0].v, r[1].v), b = _mm256_unpackhi_pd(r[0].v, r[1].v);
    __m256d c = _mm256_unpacklo_pd(r[2].v, r[3].v), d = _mm256_unpackhi_pd(r[2].v, r[3].v);
    r[0].v = _mm256_permute2f128_pd(a, c, 0x20), r[1].v = _mm256_permute2f128_pd(b, d, 0x20);
    r[2].v = _mm256_permute2f128_pd(a, c, 0x31), r[3].v = _mm256_permute2f128_pd(b, d, 0x31);
}

}  // namespace
}  // namespace refactor::kernel
