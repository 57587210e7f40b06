#pragma once
#include <cstdint>

#include <immintrin.h>

// Eight floats, with the names of `vec_avx512.h`; see there.

#define RG_SIMD [[gnu::always_inline]] inline

namespace refactor::kernel {
namespace {

struct Mask {
    __m256 m;
};
RG_SIMD Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
RG_SIMD Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.m, b.m)}; }
RG_SIMD bool any(Mask a) { return _mm256_movemask_ps(a.m) != 0; }

/// Lanes [0, n).
RG_SIMD Mask first_lanes(int n) {
    __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lanes))};
}

struct Vec {
    using Element = float;
    static constexpr int width = 8;
    static constexpr bool scales = false;
    __m256 v;

    RG_SIMD static Vec zero() { return {_mm256_setzero_ps()}; }
    RG_SIMD static Vec set(float x) { return {_mm256_set1_ps(x)}; }
    RG_SIMD static Vec load(float const* p) { return {_mm256_loadu_ps(p)}; }
    RG_SIMD void store(float* p) const { _mm256_storeu_ps(p, v); }
    /// Non-temporal; `p` is aligned to the vector.
    RG_SIMD void stream(float* p) const { _mm256_stream_ps(p, v); }
    /// First `n` in [0, width] lanes; the others are zero, and their memory is not touched.
    RG_SIMD static Vec load_first(float const* p, int n) {
        return {_mm256_maskload_ps(p, _mm256_castps_si256(first_lanes(n).m))};
    }
    /// Not by a masked store, which AMD's processors up to Zen 3 run in microcode, even for whole vectors.
    RG_SIMD void store_first(float* p, int n) const {
        if (n >= width) return store(p);
        __m128 rest = _mm256_castps256_ps128(v);
        if (n & 4) _mm_storeu_ps(p, rest), rest = _mm256_extractf128_ps(v, 1), p += 4;
        if (n & 2) _mm_storel_pi(reinterpret_cast<__m64*>(p), rest), rest = _mm_movehl_ps(rest, rest), p += 2;
        if (n & 1) _mm_store_ss(p, rest);
    }
};

RG_SIMD Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
RG_SIMD Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
RG_SIMD Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
RG_SIMD Vec operator-(Vec a) { return {_mm256_xor_ps(a.v, _mm256_set1_ps(-0.f))}; }
RG_SIMD Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }  ///< a * b + c
/// c += a * b for sums that fill the registers: the compiler would let some products take over the register of a factor
/// that is needed no more, and copy it back.
RG_SIMD void add_product(Vec& c, Vec a, Vec b) { asm("vfmadd231ps %2, %1, %0" : "+x"(c.v) : "x"(a.v), "x"(b.v)); }
RG_SIMD void add_product(Vec& c, Vec a, float const* b) { add_product(c, a, Vec::set(*b)); }
RG_SIMD Vec fnma(Vec a, Vec b, Vec c) { return {_mm256_fnmadd_ps(a.v, b.v, c.v)}; }  ///< c - a * b
/// As the instruction: if either is NaN, the result is `b`.
RG_SIMD Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
RG_SIMD Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
RG_SIMD Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
RG_SIMD Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.f), a.v)}; }
RG_SIMD Vec round(Vec a) {  ///< to nearest, ties to even
    return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
RG_SIMD Vec floor(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)}; }
RG_SIMD Vec ceil(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)}; }
RG_SIMD Vec trunc(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)}; }

RG_SIMD Vec bit_and(Vec a, Vec b) { return {_mm256_and_ps(a.v, b.v)}; }
RG_SIMD Vec bit_or(Vec a, Vec b) { return {_mm256_or_ps(a.v, b.v)}; }
RG_SIMD Vec bit_xor(Vec a, Vec b) { return {_mm256_xor_ps(a.v, b.v)}; }
/// |a| with the sign of b.
RG_SIMD Vec copysign(Vec a, Vec b) { return bit_or(abs(a), bit_and(b, Vec::set(-0.f))); }

RG_SIMD Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
RG_SIMD Mask operator<=(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
RG_SIMD Mask operator>(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
RG_SIMD Mask operator>=(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }
RG_SIMD Mask operator==(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
RG_SIMD Mask is_nan(Vec a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }
/// Lane by lane: mask ? a : b.
RG_SIMD Vec select(Mask mask, Vec a, Vec b) { return {_mm256_blendv_ps(b.v, a.v, mask.m)}; }

/// 2^n for integral n in [-126, 127].
RG_SIMD Vec power2(Vec n) {
    __m256i e = _mm256_add_epi32(_mm256_cvtps_epi32(n.v), _mm256_set1_epi32(127));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(e, 23))};
}
/// The low bits of the representation moved into the exponent: 2^n from 1.5 · 2^23 + 127 + n; 0 for n = -127.
RG_SIMD Vec power_of_low_bits(Vec a) { return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a.v), 23))}; }
/// a * 2^n for integral n in [-252, 254]; overflow gives infinity, underflow a denormal or zero.
RG_SIMD Vec scale2(Vec a, Vec n) {
    Vec half = floor(n * Vec::set(0.5f));
    return a * power2(half) * power2(n - half);
}
/// a * 2^n for n in [-252, 254] from 1.5 · 2^23 + 254 + n in two steps, as `scale2`.
RG_SIMD Vec scale2_of_low_bits(Vec a, Vec biased, Vec) {
    __m256i bits = _mm256_castps_si256(biased.v), half = _mm256_srli_epi32(bits, 1);
    __m256i other = _mm256_sub_epi32(bits, half);
    __m256 first = _mm256_castsi256_ps(_mm256_slli_epi32(half, 23));
    return {_mm256_mul_ps(_mm256_mul_ps(a.v, first), _mm256_castsi256_ps(_mm256_slli_epi32(other, 23)))};
}
/// x < bound ? 0 : a, lane by lane.
RG_SIMD Vec zero_where_less(Vec a, Vec x, Vec bound) { return {_mm256_andnot_ps((x < bound).m, a.v)}; }
/// Splits a positive finite a into m * 2^e with m in [1/sqrt 2, sqrt 2).
RG_SIMD Vec split2(Vec a, Vec& e) {
    Mask tiny = a < Vec::set(0x1p-126f);
    __m256i bits = _mm256_castps_si256(select(tiny, a * Vec::set(0x1p32f), a).v);
    __m256i exponent = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(127));
    __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff));
    Vec m{_mm256_castsi256_ps(_mm256_or_si256(fraction, _mm256_set1_epi32(0x3f800000)))};
    Vec x{_mm256_cvtepi32_ps(exponent)};
    x = select(tiny, x - Vec::set(32.f), x);
    Mask high = m >= Vec::set(1.41421356f);
    e = select(high, x + Vec::set(1.f), x);
    return select(high, m * Vec::set(0.5f), m);
}

RG_SIMD float sum(Vec a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
RG_SIMD float max_of(Vec a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
RG_SIMD float min_of(Vec a) {
    __m128 s = _mm_min_ps(_mm256_castps256_ps128(a.v), _mm256_extractf128_ps(a.v, 1));
    s = _mm_min_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_min_ss(s, _mm_movehdup_ps(s)));
}

/// Signed integers of the same number of lanes: truncating and rounding (ties to even) conversions.
struct IntVec {
    __m256i v;
    RG_SIMD static IntVec set(int32_t x) { return {_mm256_set1_epi32(x)}; }
    RG_SIMD static IntVec load(int32_t const* p) { return {_mm256_loadu_si256(reinterpret_cast<__m256i const*>(p))}; }
    RG_SIMD void store(int32_t* p) const { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
};
RG_SIMD Vec to_float(IntVec a) { return {_mm256_cvtepi32_ps(a.v)}; }
RG_SIMD IntVec to_int_round(Vec a) { return {_mm256_cvtps_epi32(a.v)}; }
RG_SIMD IntVec to_int_trunc(Vec a) { return {_mm256_cvttps_epi32(a.v)}; }

/// Transposes a width × width block in registers.
RG_SIMD void transpose(Vec (&r)[8]) {
    __m256 t[8], u[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i].v, r[2 * i + 1].v);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i].v, r[2 * i + 1].v);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
            u[4 * i + 2 * j] = _mm256_shuffle_ps(t[4 * i + j], t[4 * i + 2 + j], 0x44);
            u[4 * i + 2 * j + 1] = _mm256_shuffle_ps(t[4 * i + j], t[4 * i + 2 + j], 0xee);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        r[j].v = _mm256_permute2f128_ps(u[j], u[4 + j], 0x20);
        r[4 + j].v = _mm256_permute2f128_ps(u[j], u[4 + j], 0x31);
    }
}

}  // namespace
}  // namespace refactor::kernel
