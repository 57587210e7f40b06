#pragma once
#include <cstdint>

#include <immintrin.h>

// Sixteen floats. `vec_avx2.h` offers the same names for eight: an ISA file includes one of the two and then code
// written against `Vec`. Everything has internal linkage, so that the linker never merges code of different instruction
// sets.

#define RG_SIMD [[gnu::always_inline]] inline

namespace refactor::kernel {
namespace {

struct Mask {
    __mmask16 m;
};
RG_SIMD Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.m & b.m)}; }
RG_SIMD Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.m | b.m)}; }
RG_SIMD bool any(Mask a) { return a.m != 0; }

struct Vec {
    using Element = float;
    static constexpr int width = 16;
    static constexpr bool scales = true;  ///< by powers of two, in one instruction
    __m512 v;

    RG_SIMD static Vec zero() { return {_mm512_setzero_ps()}; }
    RG_SIMD static Vec set(float x) { return {_mm512_set1_ps(x)}; }
    RG_SIMD static Vec load(float const* p) { return {_mm512_loadu_ps(p)}; }
    RG_SIMD void store(float* p) const { _mm512_storeu_ps(p, v); }
    /// Non-temporal; `p` is aligned to the vector.
    RG_SIMD void stream(float* p) const { _mm512_stream_ps(p, v); }
    /// First `n` in [0, width] lanes; the others are zero, and their memory is not touched.
    RG_SIMD static Vec load_first(float const* p, int n) {
        return {_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1u), p)};
    }
    RG_SIMD void store_first(float* p, int n) const {
        _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), v);
    }
};

/// Lanes [0, n).
RG_SIMD Mask first_lanes(int n) { return {static_cast<__mmask16>((1u << n) - 1u)}; }

RG_SIMD Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
RG_SIMD Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
RG_SIMD Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.f))}; }
RG_SIMD Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  ///< a * b + c
#ifdef RG_BF16_PAIRS
/// Each lane of `a` and `b` is two numbers of bf16: c += a.low * b.low + a.high * b.high, denormals are zero.
RG_SIMD void add_product(Vec& c, Vec a, Vec b) {
    c.v = _mm512_dpbf16_ps(c.v, __builtin_bit_cast(__m512bh, a.v), __builtin_bit_cast(__m512bh, b.v));
}
#else
RG_SIMD void add_product(Vec& c, Vec a, Vec b) { c = fma(a, b, c); }  ///< c += a * b
#endif
/// The same with one element in all lanes of b, which serves this product alone. (GCC would make a vector of a pair
/// first, with which a product takes 1.33 of the time on Zen 4.)
RG_SIMD void add_product(Vec& c, Vec a, float const* b) {
#if defined(RG_BF16_PAIRS) && !defined(RG_EMULATE_AVX512)
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(c.v) : "v"(a.v), "m"(*b));
#else
    add_product(c, a, Vec::set(*b));
#endif
}
#if !defined(RG_BF16_PAIRS) && !defined(RG_EMULATE_AVX512)
/// `x` in the first eight lanes; the others are undefined.
RG_SIMD Vec set_half(float x) { return {_mm512_castps256_ps512(_mm256_set1_ps(x))}; }
/// c += a * b in the first eight lanes; the others are undefined.
RG_SIMD void add_half_product(Vec& c, Vec a, Vec b) {
    auto half = [](Vec x) { return _mm512_castps512_ps256(x.v); };
    c.v = _mm512_castps256_ps512(_mm256_fmadd_ps(half(a), half(b), half(c)));
}
#endif
RG_SIMD Vec fnma(Vec a, Vec b, Vec c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  ///< c - a * b
/// As the instruction: if either is NaN, the result is `b`.
RG_SIMD Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
RG_SIMD Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
RG_SIMD Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
RG_SIMD Vec abs(Vec a) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.f), a.v)}; }
RG_SIMD Vec round(Vec a) {  ///< to nearest, ties to even
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
RG_SIMD Vec floor(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
RG_SIMD Vec ceil(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
RG_SIMD Vec trunc(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }

RG_SIMD Vec bit_and(Vec a, Vec b) { return {_mm512_and_ps(a.v, b.v)}; }
RG_SIMD Vec bit_or(Vec a, Vec b) { return {_mm512_or_ps(a.v, b.v)}; }
RG_SIMD Vec bit_xor(Vec a, Vec b) { return {_mm512_xor_ps(a.v, b.v)}; }
/// |a| with the sign of b.
RG_SIMD Vec copysign(Vec a, Vec b) { return bit_or(abs(a), bit_and(b, Vec::set(-0.f))); }

RG_SIMD Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
RG_SIMD Mask operator<=(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
RG_SIMD Mask operator>(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
RG_SIMD Mask operator>=(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
RG_SIMD Mask operator==(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
RG_SIMD Mask is_nan(Vec a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
/// Lane by lane: mask ? a : b.
RG_SIMD Vec select(Mask mask, Vec a, Vec b) { return {_mm512_mask_blend_ps(mask.m, b.v, a.v)}; }

/// a * 2^n for integral n; overflow gives infinity, underflow a denormal or zero.
RG_SIMD Vec scale2(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
/// The low bits of the representation moved into the exponent: 2^n from 1.5 · 2^23 + 127 + n; 0 for n = -127.
RG_SIMD Vec power_of_low_bits(Vec a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a.v), 23))}; }
/// a * 2^n; `biased` is 1.5 · 2^23 + 254 + n, for instruction sets that move it into an exponent.
RG_SIMD Vec scale2_of_low_bits(Vec a, Vec, Vec n) { return scale2(a, n); }
/// x less the nearest integer; 0 of infinities.
RG_SIMD Vec from_nearest(Vec x) { return {_mm512_reduce_ps(x.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
/// x < bound ? 0 : a * 2^n, lane by lane, for integral n.
RG_SIMD Vec scale2_unless_less(Vec a, Vec n, Vec x, Vec bound) {
    return {_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.v, bound.v, _CMP_NLT_UQ), a.v, n.v)};
}
/// x < bound ? 0 : a, lane by lane.
RG_SIMD Vec zero_where_less(Vec a, Vec x, Vec bound) { return select(x < bound, Vec::zero(), a); }
/// Splits a positive finite a into m * 2^e with m in [1/sqrt 2, sqrt 2).
RG_SIMD Vec split2(Vec a, Vec& e) {
    __m512 m = _mm512_getmant_ps(a.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src), x = _mm512_getexp_ps(a.v);
    __mmask16 high = _mm512_cmp_ps_mask(m, _mm512_set1_ps(1.41421356f), _CMP_GE_OQ);
    e.v = _mm512_mask_add_ps(x, high, x, _mm512_set1_ps(1.f));
    return {_mm512_mask_mul_ps(m, high, m, _mm512_set1_ps(0.5f))};
}

RG_SIMD float sum(Vec a) { return _mm512_reduce_add_ps(a.v); }
RG_SIMD float max_of(Vec a) { return _mm512_reduce_max_ps(a.v); }
RG_SIMD float min_of(Vec a) { return _mm512_reduce_min_ps(a.v); }

/// Signed integers of the same number of lanes: truncating and rounding (ties to even) conversions.
struct IntVec {
    __m512i v;
    RG_SIMD static IntVec set(int32_t x) { return {_mm512_set1_epi32(x)}; }
    RG_SIMD static IntVec load(int32_t const* p) { return {_mm512_loadu_si512(p)}; }
    RG_SIMD void store(int32_t* p) const { _mm512_storeu_si512(p, v); }
};
RG_SIMD Vec to_float(IntVec a) { return {_mm512_cvtepi32_ps(a.v)}; }
RG_SIMD IntVec to_int_round(Vec a) { return {_mm512_cvtps_epi32(a.v)}; }
RG_SIMD IntVec to_int_trunc(Vec a) { return {_mm512_cvttps_epi32(a.v)}; }

/// Transposes a width × width block in registers.
RG_SIMD void transpose(Vec (&r)[16]) {
    __m512 t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
    }
    __m512 u[16];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
            u[4 * i + 2 * j] = _mm512_shuffle_ps(t[4 * i + j], t[4 * i + 2 + j], 0x44);
            u[4 * i + 2 * j + 1] = _mm512_shuffle_ps(t[4 * i + j], t[4 * i + 2 + j], 0xee);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        __m512 a = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88), b = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xdd);
        __m512 c = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88), d = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xdd);
        r[j].v = _mm512_shuffle_f32x4(a, c, 0x88), r[8 + j].v = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[4 + j].v = _mm512_shuffle_f32x4(b, d, 0x88), r[12 + j].v = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

}  // namespace
}  // namespace refactor::kernel
