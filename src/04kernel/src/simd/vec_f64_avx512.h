#pragma once
#include <cstdint>

#include <immintrin.h>

// Eight doubles, with the names of `vec_avx512.h`, for code that is written against `Vec::Element`; see there.

#define RG_SIMD [[gnu::always_inline]] inline

namespace refactor::kernel {
namespace {

struct Mask {
    __mmask8 m;
};
RG_SIMD Mask operator&(Mask a, Mask b) { return {static_cast<__mmask8>(a.m & b.m)}; }
RG_SIMD Mask operator|(Mask a, Mask b) { return {static_cast<__mmask8>(a.m | b.m)}; }
RG_SIMD bool any(Mask a) { return a.m != 0; }

/// Lanes [0, n).
RG_SIMD Mask first_lanes(int n) { return {static_cast<__mmask8>((1u << n) - 1u)}; }

struct Vec {
    using Element = double;
    static constexpr int width = 8;
    __m512d v;

    RG_SIMD static Vec zero() { return {_mm512_setzero_pd()}; }
    RG_SIMD static Vec set(double x) { return {_mm512_set1_pd(x)}; }
    RG_SIMD static Vec load(double const* p) { return {_mm512_loadu_pd(p)}; }
    RG_SIMD void store(double* p) const { _mm512_storeu_pd(p, v); }
    RG_SIMD static Vec load(float const* p) { return {_mm512_cvtps_pd(_mm256_loadu_ps(p))}; }
    RG_SIMD void store(float* p) const { _mm256_storeu_ps(p, _mm512_cvtpd_ps(v)); }
    /// First `n` in [0, width] lanes; the others are zero, and their memory is not touched.
    RG_SIMD static Vec load_first(double const* p, int n) { return {_mm512_maskz_loadu_pd(first_lanes(n).m, p)}; }
    RG_SIMD void store_first(double* p, int n) const { _mm512_mask_storeu_pd(p, first_lanes(n).m, v); }
};

RG_SIMD Vec operator+(Vec a, Vec b) { return {_mm512_add_pd(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a, Vec b) { return {_mm512_sub_pd(a.v, b.v)}; }
RG_SIMD Vec operator*(Vec a, Vec b) { return {_mm512_mul_pd(a.v, b.v)}; }
RG_SIMD Vec operator/(Vec a, Vec b) { return {_mm512_div_pd(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a) { return {_mm512_xor_pd(a.v, _mm512_set1_pd(-0.))}; }
RG_SIMD Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_pd(a.v, b.v, c.v)}; }  ///< a * b + c
RG_SIMD void add_product(Vec& c, Vec a, Vec b) { c = fma(a, b, c); }               ///< c += a * b
RG_SIMD void add_product(Vec& c, Vec a, double const* b) { add_product(c, a, Vec::set(*b)); }
RG_SIMD Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_pd(a.v, b.v, c.v)}; }  ///< c - a * b
/// As the instruction: if either is NaN, the result is `b`.
RG_SIMD Vec max(Vec a, Vec b) { return {_mm512_max_pd(a.v, b.v)}; }
RG_SIMD Vec min(Vec a, Vec b) { return {_mm512_min_pd(a.v, b.v)}; }
RG_SIMD Vec sqrt(Vec a) { return {_mm512_sqrt_pd(a.v)}; }
RG_SIMD Vec abs(Vec a) { return {_mm512_andnot_pd(_mm512_set1_pd(-0.), a.v)}; }
RG_SIMD Vec round(Vec a) {  ///< to nearest, ties to even
    return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
RG_SIMD Vec floor(Vec a) { return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
RG_SIMD Vec ceil(Vec a) { return {_mm512_roundscale_pd(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }

RG_SIMD Vec bit_and(Vec a, Vec b) { return {_mm512_and_pd(a.v, b.v)}; }
RG_SIMD Vec bit_or(Vec a, Vec b) { return {_mm512_or_pd(a.v, b.v)}; }
/// |a| with the sign of b.
RG_SIMD Vec copysign(Vec a, Vec b) { return bit_or(abs(a), bit_and(b, Vec::set(-0.))); }

RG_SIMD Mask operator<(Vec a, Vec b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LT_OQ)}; }
RG_SIMD Mask operator<=(Vec a, Vec b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_LE_OQ)}; }
RG_SIMD Mask operator>(Vec a, Vec b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_GT_OQ)}; }
RG_SIMD Mask operator>=(Vec a, Vec b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_GE_OQ)}; }
RG_SIMD Mask operator==(Vec a, Vec b) { return {_mm512_cmp_pd_mask(a.v, b.v, _CMP_EQ_OQ)}; }
RG_SIMD Mask is_nan(Vec a) { return {_mm512_cmp_pd_mask(a.v, a.v, _CMP_UNORD_Q)}; }
/// Lane by lane: mask ? a : b.
RG_SIMD Vec select(Mask mask, Vec a, Vec b) { return {_mm512_mask_blend_pd(mask.m, b.v, a.v)}; }

/// 2^n for integral n in [-1022, 1023], by the low bits of 1.5 · 2^52 + 1023 + n; 0 for n = -1023.
RG_SIMD Vec power2(Vec n) {
    Vec biased = n + Vec::set(0x1.8p52 + 1023);
    return {_mm512_castsi512_pd(_mm512_slli_epi64(_mm512_castpd_si512(biased.v), 52))};
}
/// a * 2^n for integral n; overflow gives infinity, underflow a denormal or zero.
RG_SIMD Vec scale2(Vec a, Vec n) { return {_mm512_scalef_pd(a.v, n.v)}; }
/// Splits a positive finite a into m * 2^e with m in [1/sqrt 2, sqrt 2).
RG_SIMD Vec split2(Vec a, Vec& e) {
    __m512d m = _mm512_getmant_pd(a.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src), x = _mm512_getexp_pd(a.v);
    __mmask8 high = _mm512_cmp_pd_mask(m, _mm512_set1_pd(1.41421356237309505), _CMP_GE_OQ);
    e.v = _mm512_mask_add_pd(x, high, x, _mm512_set1_pd(1));
    return {_mm512_mask_mul_pd(m, high, m, _mm512_set1_pd(0.5))};
}

RG_SIMD double sum(Vec a) { return _mm512_reduce_add_pd(a.v); }
RG_SIMD double max_of(Vec a) { return _mm512_reduce_max_pd(a.v); }
RG_SIMD double min_of(Vec a) { return _mm512_reduce_min_pd(a.v); }

/// Transposes a width × width block in registers.
RG_SIMD void transpose(Vec (&r)[8]) {
    __m512d t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        t[2 * i] = _mm512_unpacklo_pd(r[2 * i].v, r[2 * i + 1].v);
        t[2 * i + 1] = _mm512_unpackhi_pd(r[2 * i].v, r[2 * i + 1].v);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
            // Columns j and j + 4, then j + 2 and j + 6, of four rows.
            u[4 * i + j] = _mm512_shuffle_f64x2(t[4 * i + j], t[4 * i + 2 + j], 0x88);
            u[4 * i + 2 + j] = _mm512_shuffle_f64x2(t[4 * i + j], t[4 * i + 2 + j], 0xdd);
        }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        r[j].v = _mm512_shuffle_f64x2(u[j], u[4 + j], 0x88);
        r[4 + j].v = _mm512_shuffle_f64x2(u[j], u[4 + j], 0xdd);
    }
}

}  // namespace
}  // namespace refactor::kernel
