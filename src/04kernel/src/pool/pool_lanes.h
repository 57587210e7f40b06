#pragma once
// Include a `simd/vec_*.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

#ifdef __AVX512F__
RG_SIMD __mmask16 but(__mmask16 a, __mmask16 b) { return static_cast<__mmask16>(a & ~b); }
RG_SIMD __mmask8 but(__mmask8 a, __mmask8 b) { return static_cast<__mmask8>(a & ~b); }
RG_SIMD __m512 masked(float const* p, __mmask16 m, __m512 other) { return _mm512_mask_loadu_ps(other, m, p); }
RG_SIMD __m512d masked(double const* p, __mmask8 m, __m512d other) { return _mm512_mask_loadu_pd(other, m, p); }
RG_SIMD __m512 every_second(__m512 a, __m512 b, int first) {
    __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(first)), b);
}
RG_SIMD __m512d every_second(__m512d a, __m512d b, int first) {
    __m512i at = _mm512_setr_epi32(0, 0, 2, 0, 4, 0, 6, 0, 8, 0, 10, 0, 12, 0, 14, 0);
    return _mm512_permutex2var_pd(a, _mm512_add_epi32(at, _mm512_set1_epi32(first)), b);
}
#else
RG_SIMD __m256 but(__m256 a, __m256 b) { return _mm256_andnot_ps(b, a); }
RG_SIMD __m256d but(__m256d a, __m256d b) { return _mm256_andnot_pd(b, a); }
RG_SIMD __m256 masked(float const* p, __m256 m, __m256 other) {
    return _mm256_blendv_ps(other, _mm256_maskload_ps(p, _mm256_castps_si256(m)), m);
}
RG_SIMD __m256d masked(double const* p, __m256d m, __m256d other) {
    return _mm256_blendv_pd(other, _mm256_maskload_pd(p, _mm256_castpd_si256(m)), m);
}
RG_SIMD __m256 every_second(__m256 a, __m256 b, int first) {
    __m256d mixed = _mm256_castps_pd(first ? _mm256_shuffle_ps(a, b, 0xdd) : _mm256_shuffle_ps(a, b, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xd8));
}
RG_SIMD __m256d every_second(__m256d a, __m256d b, int first) {
    return _mm256_permute4x64_pd(first ? _mm256_unpackhi_pd(a, b) : _mm256_unpacklo_pd(a, b), 0xd8);
}
#endif

/// Lanes i where from + i is in [0, size).
RG_SIMD Mask lanes_inside(int64_t from, int64_t size) {
    auto const within = [](int64_t n) {
        return first_lanes(static_cast<int>(n < 0 ? 0 : n > Vec::width ? Vec::width : n));
    };
    return {but(within(size - from).m, within(-from).m)};
}
/// The masked lanes of memory, nothing else of which is touched, and the others of `other`.
RG_SIMD Vec load_masked(Vec::Element const* p, Mask mask, Vec other) { return {masked(p, mask.m, other.v)}; }
/// Elements 0, 2, … of two vectors; and 1, 3, …
RG_SIMD Vec evens(Vec a, Vec b) { return {every_second(a.v, b.v, 0)}; }
RG_SIMD Vec odds(Vec a, Vec b) { return {every_second(a.v, b.v, 1)}; }

}  // namespace
}  // namespace refactor::kernel
