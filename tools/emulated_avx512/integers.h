#pragma once
// Vectors of integers.
#include "lanes.h"

namespace refactor {
namespace {

RG_EMULATED __m512i _mm512_set1_epi8(char x) { return join(_mm256_set1_epi8(x), _mm256_set1_epi8(x)); }
RG_EMULATED __m512i _mm512_set1_epi16(short x) { return join(_mm256_set1_epi16(x), _mm256_set1_epi16(x)); }
RG_EMULATED __m512i _mm512_set1_epi32(int x) { return join(_mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
RG_EMULATED __m512i _mm512_setzero_si512() { return _mm512_set1_epi32(0); }
template <class... T>
RG_EMULATED __m512i _mm512_setr_epi32(T... x) {
    static_assert(sizeof...(T) == 16);
    int const list[] = {static_cast<int>(x)...};
    __m512i a;
    std::memcpy(&a, list, sizeof a);
    return a;
}
RG_EMULATED __m512i _mm512_loadu_si512(void const* p) {
    auto const* x = static_cast<__m256i const*>(p);
    return join(_mm256_loadu_si256(x), _mm256_loadu_si256(x + 1));
}
RG_EMULATED __m512i _mm512_load_si512(void const* p) {
    want_aligned(p);
    return _mm512_loadu_si512(p);
}
RG_EMULATED void _mm512_storeu_si512(void* p, __m512i a) {
    auto* x = static_cast<__m256i*>(p);
    _mm256_storeu_si256(x, halves(a).low);
    _mm256_storeu_si256(x + 1, halves(a).high);
}
RG_EMULATED void _mm512_store_si512(void* p, __m512i a) {
    want_aligned(p);
    _mm512_storeu_si512(p, a);
}

#define RG_OF_TWO(name, half)                                                                                    \
    RG_EMULATED __m512i _mm512_##name(__m512i a, __m512i b) {                                                    \
        return join(_mm256_##half(halves(a).low, halves(b).low), _mm256_##half(halves(a).high, halves(b).high)); \
    }
#define RG_SHIFT(name)                                                                          \
    RG_EMULATED __m512i _mm512_##name(__m512i a, int count) {                                   \
        return join(_mm256_##name(halves(a).low, count), _mm256_##name(halves(a).high, count)); \
    }
RG_OF_TWO(add_epi16, add_epi16)
RG_OF_TWO(add_epi32, add_epi32)
RG_OF_TWO(add_epi64, add_epi64)
RG_OF_TWO(adds_epi16, adds_epi16)
RG_OF_TWO(and_si512, and_si256)
RG_OF_TWO(madd_epi16, madd_epi16)
RG_OF_TWO(max_epi32, max_epi32)
RG_OF_TWO(max_epi8, max_epi8)
RG_OF_TWO(max_epu8, max_epu8)
RG_OF_TWO(min_epi8, min_epi8)
RG_OF_TWO(min_epu8, min_epu8)
RG_OF_TWO(mullo_epi32, mullo_epi32)
RG_OF_TWO(or_si512, or_si256)
RG_OF_TWO(packs_epi16, packs_epi16)
RG_OF_TWO(packs_epi32, packs_epi32)
RG_OF_TWO(packus_epi16, packus_epi16)
RG_OF_TWO(shuffle_epi8, shuffle_epi8)
RG_OF_TWO(sub_epi16, sub_epi16)
RG_OF_TWO(sub_epi32, sub_epi32)
RG_OF_TWO(unpackhi_epi16, unpackhi_epi16)
RG_OF_TWO(unpackhi_epi8, unpackhi_epi8)
RG_OF_TWO(unpacklo_epi16, unpacklo_epi16)
RG_OF_TWO(unpacklo_epi8, unpacklo_epi8)
RG_OF_TWO(xor_si512, xor_si256)
RG_SHIFT(slli_epi16)
RG_SHIFT(slli_epi32)
RG_SHIFT(srai_epi32)
RG_SHIFT(srli_epi32)
#undef RG_OF_TWO
#undef RG_SHIFT
RG_EMULATED __m512i _mm512_srl_epi32(__m512i a, __m128i count) {
    return join(_mm256_srl_epi32(halves(a).low, count), _mm256_srl_epi32(halves(a).high, count));
}

/// c + sums of four products of unsigned bytes with signed ones, modulo 2^32.
RG_EMULATED __m512i _mm512_dpbusd_epi32(__m512i c, __m512i a, __m512i b) {
    // A product of bytes needs 17 bits and two of them are more than i16: even and odd bytes apart.
    auto half = [](__m256i sum, __m256i x, __m256i y) {
        __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0xff)),
                                         _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8));
        __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(y, 8));
        return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
    };
    return join(half(halves(c).low, halves(a).low, halves(b).low),
                half(halves(c).high, halves(a).high, halves(b).high));
}
RG_EMULATED __m512i _mm512_dpwssd_epi32(__m512i c, __m512i a, __m512i b) {
    return _mm512_add_epi32(c, _mm512_madd_epi16(a, b));
}

RG_EMULATED __m512i _mm512_broadcast_i32x4(__m128i a) {
    return join(_mm256_broadcastsi128_si256(a), _mm256_broadcastsi128_si256(a));
}
RG_EMULATED __m512i _mm512_permutexvar_epi16(__m512i index, __m512i a) {
    Elements<uint16_t, __m512i> from(index), x(a), z(a);
    for (int i = 0; i < 32; ++i) z.x[i] = x.x[from.x[i] & 31];
    return z.vector();
}
RG_EMULATED __m512i _mm512_permutexvar_epi32(__m512i index, __m512i a) {
    Elements<uint32_t, __m512i> from(index), x(a), z(a);
    for (int i = 0; i < 16; ++i) z.x[i] = x.x[from.x[i] & 15];
    return z.vector();
}
RG_EMULATED __m512 _mm512_permutex2var_ps(__m512 a, __m512i index, __m512 b) {
    Elements<uint32_t, __m512i> from(index);
    Elements<float, __m512> x(a), y(b), z(a);
    for (int i = 0; i < 16; ++i) z.x[i] = (from.x[i] & 16 ? y : x).x[from.x[i] & 15];
    return z.vector();
}
RG_EMULATED __m512i _mm512_permutex2var_epi8(__m512i a, __m512i index, __m512i b) {
    Elements<uint8_t, __m512i> from(index), x(a), y(b), z(a);
    for (int i = 0; i < 64; ++i) z.x[i] = (from.x[i] & 64 ? y : x).x[from.x[i] & 63];
    return z.vector();
}
RG_EMULATED __m512i _mm512_shuffle_i64x2(__m512i a, __m512i b, int order) {
    Elements<uint64_t, __m512i> x(a), y(b), z(a);
    for (int i = 0; i < 8; ++i) z.x[i] = (i < 4 ? x : y).x[(order >> i / 2 * 2 & 3) * 2 + i % 2];
    return z.vector();
}
RG_EMULATED __m512i _mm512_inserti32x4(__m512i a, __m128i b, int part) {
    Elements<__m128i, __m512i> x(a);
    x.x[part & 3] = b;
    return x.vector();
}
RG_EMULATED __m512i _mm512_inserti64x4(__m512i a, __m256i b, int part) {
    return part & 1 ? join(halves(a).low, b) : join(b, halves(a).high);
}
RG_EMULATED __m128i _mm512_extracti32x4_epi32(__m512i a, int part) { return Elements<__m128i, __m512i>(a).x[part & 3]; }
RG_EMULATED __m256i _mm512_extracti64x4_epi64(__m512i a, int part) { return part & 1 ? halves(a).high : halves(a).low; }
RG_EMULATED __m256i _mm512_castsi512_si256(__m512i a) { return halves(a).low; }
RG_EMULATED __m128i _mm512_castsi512_si128(__m512i a) { return _mm256_castsi256_si128(halves(a).low); }
RG_EMULATED __m512i _mm512_castsi256_si512(__m256i a) { return join(a, _mm256_set1_epi8(-0x33)); }
RG_EMULATED __m512i _mm512_castsi128_si512(__m128i a) {
    return _mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_set1_epi8(-0x33), a, 0));
}

#define RG_WIDEN(name)                                                          \
    RG_EMULATED __m512i _mm512_##name(__m128i a) {                              \
        return join(_mm256_##name(a), _mm256_##name(_mm_unpackhi_epi64(a, a))); \
    }
RG_WIDEN(cvtepi8_epi32)
RG_WIDEN(cvtepu8_epi32)
#undef RG_WIDEN
#define RG_WIDEN(name)                                                                                        \
    RG_EMULATED __m512i _mm512_##name(__m256i a) {                                                            \
        return join(_mm256_##name(_mm256_castsi256_si128(a)), _mm256_##name(_mm256_extracti128_si256(a, 1))); \
    }
RG_WIDEN(cvtepi8_epi16)
RG_WIDEN(cvtepu16_epi32)
RG_WIDEN(cvtepu8_epi16)
#undef RG_WIDEN

template <class F>
RG_EMULATED __m128i narrowed(__m512i a, F f) {
    Elements<int32_t, __m512i> x(a);
    Elements<uint8_t, __m128i> z(_mm_setzero_si128());
    for (int i = 0; i < 16; ++i) z.x[i] = static_cast<uint8_t>(f(x.x[i]));
    return z.vector();
}
RG_EMULATED __m128i _mm512_cvtepi32_epi8(__m512i a) {
    return narrowed(a, [](int32_t x) { return x; });
}
RG_EMULATED __m128i _mm512_cvtsepi32_epi8(__m512i a) { return narrowed(a, saturated<int8_t>); }
RG_EMULATED __m128i _mm512_cvtusepi32_epi8(__m512i a) {
    return narrowed(a, [](int32_t x) { return static_cast<uint32_t>(x) > 255 ? 255 : x; });
}

RG_EMULATED int _mm512_reduce_add_epi32(__m512i a) {
    Elements<uint32_t, __m512i> x(a);
    uint32_t sum = 0;
    for (uint32_t element : x.x) sum += element;
    return static_cast<int>(sum);
}
RG_EMULATED int _mm512_reduce_max_epi32(__m512i a) {
    Elements<int32_t, __m512i> x(a);
    int most = x.x[0];
    for (int element : x.x) most = element > most ? element : most;
    return most;
}

}  // namespace
}  // namespace refactor
