#pragma once
// What a mask chooses of doubles.
#include "doubles.h"

namespace refactor {
namespace {

RG_EMULATED __mmask8 _mm512_mask_cmp_pd_mask(__mmask8 mask, __m512d a, __m512d b, int predicate) {
    return static_cast<__mmask8>(mask & _mm512_cmp_pd_mask(a, b, predicate));
}
RG_EMULATED __m512d _mm512_mask_blend_pd(__mmask8 mask, __m512d a, __m512d b) { return chosen<double>(mask, b, a); }
RG_EMULATED __m512d _mm512_mask_add_pd(__m512d other, __mmask8 mask, __m512d a, __m512d b) {
    return chosen<double>(mask, _mm512_add_pd(a, b), other);
}
RG_EMULATED __m512d _mm512_mask_max_pd(__m512d other, __mmask8 mask, __m512d a, __m512d b) {
    return chosen<double>(mask, _mm512_max_pd(a, b), other);
}
RG_EMULATED __m512d _mm512_mask_mul_pd(__m512d other, __mmask8 mask, __m512d a, __m512d b) {
    return chosen<double>(mask, _mm512_mul_pd(a, b), other);
}
RG_EMULATED __m512d _mm512_mask_loadu_pd(__m512d other, __mmask8 mask, void const* p) {
    return loaded<double>(other, mask, p);
}
RG_EMULATED __m512d _mm512_maskz_loadu_pd(__mmask8 mask, void const* p) {
    return loaded<double>(_mm512_setzero_pd(), mask, p);
}
RG_EMULATED void _mm512_mask_storeu_pd(void* p, __mmask8 mask, __m512d a) { stored<double>(p, mask, a); }

}  // namespace
}  // namespace refactor
