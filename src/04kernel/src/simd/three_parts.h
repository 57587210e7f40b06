#pragma once
// Floats as sums of three numbers of bf16: 24 bits in three times 8. Include `vec_avx512.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

constexpr int kParts = 3;
constexpr int kUpperHalf = -0x10000;

/// The bits of `x` that a number of bf16 has, rounded to nearest, but to no infinity.
RG_SIMD Vec leading_bits(Vec x) {
    constexpr float kLargest = 0x1.FEp127f;
    constexpr int kSmallerMagnitudeSignOfFirst = 0b0010;
    auto rounded = _mm512_add_epi32(_mm512_castps_si512(x.v), _mm512_set1_epi32(0x8000));
    auto leading = _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(kUpperHalf)));
    return {_mm512_range_ps(leading, _mm512_set1_ps(kLargest), kSmallerMagnitudeSignOfFirst)};
}
/// Pairs of numbers of bf16, which are the upper halves of floats: lanes of `low` and `high`.
RG_SIMD Vec pairs_of_halves(Vec low, Vec high) {
    constexpr __mmask32 kOdd = 0xAAAAAAAA;
    auto lower = _mm512_srli_epi32(_mm512_castps_si512(low.v), 16);
    return {_mm512_castsi512_ps(_mm512_mask_blend_epi16(kOdd, lower, _mm512_castps_si512(high.v)))};
}

/// Lanes of `low` and `high` side by side, in three parts, `step` floats apart. What is below 2^-126 of a part is lost.
RG_SIMD void store_parts(Vec low, Vec high, float* y, int64_t step) {
#pragma GCC unroll 3
    for (int part = 0; part < kParts; ++part) {
        // What the first two parts leave over has no more bits than the third.
        bool const last = part + 1 == kParts;
        Vec a = last ? low : leading_bits(low), b = last ? high : leading_bits(high);
        pairs_of_halves(a, b).store(y + part * step);
        low = low - a, high = high - b;
    }
}

/// The numbers that are lanes of `low` (not `odd`) or of `high` of what `store_parts` made; infinities and NaN are in
/// the third part.
RG_SIMD Vec from_parts(float const* parts, int64_t step, bool odd) {
    auto part = [&](int i) __attribute__((always_inline)) {
        auto pairs = _mm512_loadu_si512(parts + i * step);
        return Vec{_mm512_castsi512_ps(odd ? _mm512_and_si512(pairs, _mm512_set1_epi32(kUpperHalf))
                                           : _mm512_slli_epi32(pairs, 16))};
    };
    return part(0) + (part(1) + part(2));
}

}  // namespace
}  // namespace refactor::kernel
