#include "half_avx2.h"

#include <immintrin.h>

namespace refactor::half_avx2 {
namespace {

// Runs `block` on eight elements at a time; the rest goes through a zero-padded copy.
template <class From, class To, class Block>
inline void by_eight(From const* source, To* target, size_t count, Block block) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) block(source + i, target + i);
    if (i == count) return;
    From in[8] = {};
    To out[8];
    for (size_t k = i; k < count; ++k) in[k - i] = source[k];
    block(in, out);
    for (size_t k = i; k < count; ++k) target[k] = out[k - i];
}

void f16_from_f32(float const* source, uint16_t* target, size_t count) {
    by_eight(source, target, count, [](float const* in, uint16_t* out) {
        // VCVTPS2PH ignores FTZ and DAZ.
        auto half = _mm256_cvtps_ph(_mm256_loadu_ps(in), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), half);
    });
}

void f32_from_f16(uint16_t const* source, float* target, size_t count) {
    by_eight(source, target, count, [](uint16_t const* in, float* out) {
        _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(in))));
    });
}

void bf16_from_f32(float const* source, uint16_t* target, size_t count) {
    by_eight(source, target, count, [](float const* in, uint16_t* out) {
        auto bits = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(in));
        auto odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
        auto rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
        auto quiet = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
        auto magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
        auto nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000));
        auto words = _mm256_blendv_epi8(rounded, quiet, nan);
        auto packed = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out), packed);
    });
}

void f32_from_bf16(uint16_t const* source, float* target, size_t count) {
    by_eight(source, target, count, [](uint16_t const* in, float* out) {
        auto words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<__m128i const*>(in)));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_slli_epi32(words, 16));
    });
}

}  // namespace

Functions functions() { return {f16_from_f32, f32_from_f16, bf16_from_f32, f32_from_bf16}; }

}  // namespace refactor::half_avx2
