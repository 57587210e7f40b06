#pragma once
// Include a `vec_*.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

// No two of the wanted elements are in the same lane: they are gathered in one vector and put in order.
#ifdef __AVX512F__
RG_SIMD __m512 third_lanes(__m512 a, __m512 b, __m512 c) {
    __m512 mixed = _mm512_mask_blend_ps(0x2492, _mm512_mask_blend_ps(0x4924, a, b), c);
    return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 3, 6, 9, 12, 15, 2, 5, 8, 11, 14, 1, 4, 7, 10, 13), mixed);
}
RG_SIMD __m512d third_lanes(__m512d a, __m512d b, __m512d c) {
    __m512d mixed = _mm512_mask_blend_pd(0x24, _mm512_mask_blend_pd(0x92, a, b), c);
    __m512i at = _mm512_setr_epi32(0, 0, 3, 0, 6, 0, 1, 0, 4, 0, 7, 0, 2, 0, 5, 0);
    return _mm512_permutex2var_pd(mixed, at, mixed);
}
#else
RG_SIMD __m256 third_lanes(__m256 a, __m256 b, __m256 c) {
    __m256 mixed = _mm256_blend_ps(_mm256_blend_ps(a, b, 0x92), c, 0x24);
    return _mm256_permutevar8x32_ps(mixed, _mm256_setr_epi32(0, 3, 6, 1, 4, 7, 2, 5));
}
RG_SIMD __m256d third_lanes(__m256d a, __m256d b, __m256d c) {
    __m256d mixed = _mm256_blend_pd(_mm256_blend_pd(a, b, 4), c, 2);
    return _mm256_permute4x64_pd(mixed, 0x6c);
}
#endif
/// Elements 0, 3, 6, … of three vectors.
RG_SIMD Vec every_third(Vec a, Vec b, Vec c) { return {third_lanes(a.v, b.v, c.v)}; }

}  // namespace
}  // namespace refactor::kernel
