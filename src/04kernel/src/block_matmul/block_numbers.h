#pragma once
// Packed numbers in their order, for AVX2 and AVX-512; include `vec_*.h` first.

namespace refactor::kernel {
namespace {

template <class T>
RG_SIMD T load_as(uint8_t const* p) {
    T value;
    __builtin_memcpy(&value, p, sizeof value);
    return value;
}

/// `count` numbers, 8 or 16, as bytes: a byte of several numbers becomes an element of as many bytes, in which copies
/// of it are shifted until each number is at the bottom of its byte.
template <int bits, int count>
RG_SIMD __m128i bytes_of(uint8_t const* q) {
    if constexpr (bits == 8) {
        return count == 16 ? _mm_loadu_si128(reinterpret_cast<__m128i const*>(q))
                           : _mm_loadl_epi64(reinterpret_cast<__m128i const*>(q));
    } else if constexpr (bits == 4) {
        __m128i x = _mm_cvtepu8_epi16(count == 16 ? _mm_loadl_epi64(reinterpret_cast<__m128i const*>(q))
                                                  : _mm_cvtsi32_si128(load_as<int32_t>(q)));
        return _mm_and_si128(_mm_or_si128(x, _mm_slli_epi16(x, 4)), _mm_set1_epi8(0x0f));
    } else {
        __m128i x = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(count == 16 ? load_as<int32_t>(q) : load_as<uint16_t>(q)));
        x = _mm_or_si128(x, _mm_slli_epi32(x, 6));
        return _mm_and_si128(_mm_or_si128(x, _mm_slli_epi32(x, 12)), _mm_set1_epi8(0x03));
    }
}

}  // namespace
}  // namespace refactor::kernel
