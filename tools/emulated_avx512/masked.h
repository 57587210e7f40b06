#pragma once
// What a mask chooses.
#include "lanes.h"

namespace refactor {
namespace {

/// mask ? a : b, element by element.
template <class T, class V>
RG_EMULATED V chosen(uint64_t mask, V a, V b) {
    Elements<T, V> x(a), y(b);
    for (int i = 0; i < x.count; ++i)
        if (!(mask >> i & 1)) x.x[i] = y.x[i];
    return x.vector();
}
template <class T, class V>
RG_EMULATED V loaded(V other, uint64_t mask, void const* p) {
    Elements<T, V> x(other);
    for (int i = 0; i < x.count; ++i)
        if (mask >> i & 1) std::memcpy(x.x + i, static_cast<char const*>(p) + i * sizeof(T), sizeof(T));
    return x.vector();
}
template <class T, class V>
RG_EMULATED void stored(void* p, uint64_t mask, V a) {
    Elements<T, V> x(a);
    for (int i = 0; i < x.count; ++i)
        if (mask >> i & 1) std::memcpy(static_cast<char*>(p) + i * sizeof(T), x.x + i, sizeof(T));
}

template <int predicate>
RG_EMULATED __mmask16 compared(__m512 a, __m512 b) {
    int low = _mm256_movemask_ps(_mm256_cmp_ps(halves(a).low, halves(b).low, predicate));
    int high = _mm256_movemask_ps(_mm256_cmp_ps(halves(a).high, halves(b).high, predicate));
    return static_cast<__mmask16>(low | high << 8);
}
RG_EMULATED __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, int predicate) {
    switch (predicate) {
        case _CMP_EQ_OQ:
            return compared<_CMP_EQ_OQ>(a, b);
        case _CMP_GE_OQ:
            return compared<_CMP_GE_OQ>(a, b);
        case _CMP_GT_OQ:
            return compared<_CMP_GT_OQ>(a, b);
        case _CMP_LE_OQ:
            return compared<_CMP_LE_OQ>(a, b);
        case _CMP_LT_OQ:
            return compared<_CMP_LT_OQ>(a, b);
        case _CMP_NLT_UQ:
            return compared<_CMP_NLT_UQ>(a, b);
        case _CMP_ORD_Q:
            return compared<_CMP_ORD_Q>(a, b);
        case _CMP_UNORD_Q:
            return compared<_CMP_UNORD_Q>(a, b);
        default:
            __builtin_trap();
    }
}
RG_EMULATED __mmask16 _mm512_mask_cmp_ps_mask(__mmask16 mask, __m512 a, __m512 b, int predicate) {
    return static_cast<__mmask16>(mask & _mm512_cmp_ps_mask(a, b, predicate));
}
RG_EMULATED __mmask64 _mm512_movepi8_mask(__m512i a) {
    auto bits = [](__m256i x) { return static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(x))); };
    return bits(halves(a).low) | bits(halves(a).high) << 32;
}

RG_EMULATED __m512 _mm512_mask_blend_ps(__mmask16 mask, __m512 a, __m512 b) { return chosen<float>(mask, b, a); }
RG_EMULATED __m512i _mm512_mask_blend_epi16(__mmask32 mask, __m512i a, __m512i b) {
    return chosen<uint16_t>(mask, b, a);
}
RG_EMULATED __m512i _mm512_mask_blend_epi8(__mmask64 mask, __m512i a, __m512i b) { return chosen<uint8_t>(mask, b, a); }
RG_EMULATED __m512i _mm512_maskz_mov_epi8(__mmask64 mask, __m512i a) {
    return chosen<uint8_t>(mask, a, _mm512_setzero_si512());
}
RG_EMULATED __m512 _mm512_maskz_scalef_ps(__mmask16 mask, __m512 a, __m512 b) {
    return chosen<float>(mask, _mm512_scalef_ps(a, b), _mm512_setzero_ps());
}
RG_EMULATED __m512 _mm512_mask_add_ps(__m512 other, __mmask16 mask, __m512 a, __m512 b) {
    return chosen<float>(mask, _mm512_add_ps(a, b), other);
}
RG_EMULATED __m512 _mm512_mask_max_ps(__m512 other, __mmask16 mask, __m512 a, __m512 b) {
    return chosen<float>(mask, _mm512_max_ps(a, b), other);
}
RG_EMULATED __m512 _mm512_mask_mul_ps(__m512 other, __mmask16 mask, __m512 a, __m512 b) {
    return chosen<float>(mask, _mm512_mul_ps(a, b), other);
}
RG_EMULATED __m128i _mm512_maskz_cvtsepi32_epi8(__mmask16 mask, __m512i a) {
    return chosen<uint8_t>(mask, _mm512_cvtsepi32_epi8(a), _mm_setzero_si128());
}
RG_EMULATED __m128i _mm512_maskz_cvtusepi32_epi8(__mmask16 mask, __m512i a) {
    return chosen<uint8_t>(mask, _mm512_cvtusepi32_epi8(a), _mm_setzero_si128());
}

RG_EMULATED __m512 _mm512_mask_loadu_ps(__m512 other, __mmask16 mask, void const* p) {
    return loaded<float>(other, mask, p);
}
RG_EMULATED __m512 _mm512_maskz_loadu_ps(__mmask16 mask, void const* p) {
    return loaded<float>(_mm512_setzero_ps(), mask, p);
}
RG_EMULATED __m512i _mm512_maskz_loadu_epi32(__mmask16 mask, void const* p) {
    return loaded<int32_t>(_mm512_setzero_si512(), mask, p);
}
RG_EMULATED __m512i _mm512_mask_loadu_epi8(__m512i other, __mmask64 mask, void const* p) {
    return loaded<uint8_t>(other, mask, p);
}
RG_EMULATED __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, void const* p) {
    return loaded<uint8_t>(_mm512_setzero_si512(), mask, p);
}
RG_EMULATED __m256i _mm256_maskz_loadu_epi8(__mmask32 mask, void const* p) {
    return loaded<uint8_t>(_mm256_setzero_si256(), mask, p);
}
RG_EMULATED __m512i _mm512_maskz_loadu_epi16(__mmask32 mask, void const* p) {
    return loaded<uint16_t>(_mm512_setzero_si512(), mask, p);
}
RG_EMULATED __m256i _mm256_maskz_loadu_epi16(__mmask16 mask, void const* p) {
    return loaded<uint16_t>(_mm256_setzero_si256(), mask, p);
}
RG_EMULATED __m128i _mm_maskz_loadu_epi8(__mmask16 mask, void const* p) {
    return loaded<uint8_t>(_mm_setzero_si128(), mask, p);
}
RG_EMULATED void _mm512_mask_storeu_ps(void* p, __mmask16 mask, __m512 a) { stored<float>(p, mask, a); }
RG_EMULATED void _mm512_mask_storeu_epi8(void* p, __mmask64 mask, __m512i a) { stored<uint8_t>(p, mask, a); }
RG_EMULATED void _mm256_mask_storeu_epi8(void* p, __mmask32 mask, __m256i a) { stored<uint8_t>(p, mask, a); }
RG_EMULATED void _mm512_mask_storeu_epi16(void* p, __mmask32 mask, __m512i a) { stored<uint16_t>(p, mask, a); }
RG_EMULATED void _mm_mask_storeu_epi8(void* p, __mmask16 mask, __m128i a) { stored<uint8_t>(p, mask, a); }

}  // namespace
}  // namespace refactor
