#pragma once
// Include a `simd/vec_*.h` first. Internal linkage.

namespace refactor::kernel {
namespace {

constexpr int W = Vec::width;

#ifdef __AVX512F__
RG_SIMD __m512 larger(__m512 a, __m512 b) { return _mm512_mask_max_ps(a, _mm512_cmp_ps_mask(a, a, _CMP_ORD_Q), a, b); }
RG_SIMD __m512d larger(__m512d a, __m512d b) {
    return _mm512_mask_max_pd(a, _mm512_cmp_pd_mask(a, a, _CMP_ORD_Q), a, b);
}
RG_SIMD __m512 larger(__m512 a, float const* p, __mmask16 m) {
    return _mm512_mask_max_ps(a, _mm512_mask_cmp_ps_mask(m, a, a, _CMP_ORD_Q), a, _mm512_maskz_loadu_ps(m, p));
}
RG_SIMD __m512d larger(__m512d a, double const* p, __mmask8 m) {
    return _mm512_mask_max_pd(a, _mm512_mask_cmp_pd_mask(m, a, a, _CMP_ORD_Q), a, _mm512_maskz_loadu_pd(m, p));
}
/// The larger one; NaN if either is.
RG_SIMD Vec maximum(Vec a, Vec b) { return {larger(a.v, b.v)}; }
/// The same with the masked lanes of memory, nothing else of which is touched.
RG_SIMD Vec maximum_masked(Vec a, Vec::Element const* p, Mask mask) { return {larger(a.v, p, mask.m)}; }
RG_SIMD __mmask16 unordered(__m512 a, __m512 b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
RG_SIMD __mmask8 unordered(__m512d a, __m512d b) { return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q); }
#else
/// The larger one; NaN if either is.
RG_SIMD Vec maximum(Vec a, Vec b) { return select(is_nan(a), a, max(a, b)); }
RG_SIMD __m256 unordered(__m256 a, __m256 b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
RG_SIMD __m256d unordered(__m256d a, __m256d b) { return _mm256_cmp_pd(a, b, _CMP_UNORD_Q); }
#endif
RG_SIMD Mask either_nan(Vec a, Vec b) { return {unordered(a.v, b.v)}; }

}  // namespace
}  // namespace refactor::kernel
