#pragma once
// Include a wrapper, which defines RG_SIMD, first.

namespace refactor::kernel {
namespace {

#ifdef __AVX512F__
RG_SIMD __m512 sums_of(__m512 const (&v)[16]) {
    __m512 quads[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
        auto pair = [&](int i) __attribute__((always_inline)) {
            return _mm512_add_ps(_mm512_unpacklo_ps(v[i], v[i + 1]), _mm512_unpackhi_ps(v[i], v[i + 1]));
        };
        __m512d a = _mm512_castps_pd(pair(4 * q)), b = _mm512_castps_pd(pair(4 * q + 2));
        quads[q] =
            _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    auto join = [](__m512 a, __m512 b) __attribute__((always_inline)) {
        return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    return join(join(quads[0], quads[1]), join(quads[2], quads[3]));
}
RG_SIMD __m512d sums_of(__m512d const (&v)[8]) {
    auto pair = [&](int i) __attribute__((always_inline)) {
        return _mm512_add_pd(_mm512_unpacklo_pd(v[i], v[i + 1]), _mm512_unpackhi_pd(v[i], v[i + 1]));
    };
    auto join = [](__m512d a, __m512d b) __attribute__((always_inline)) {
        return _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
    };
    return join(join(pair(0), pair(2)), join(pair(4), pair(6)));
}
#endif
RG_SIMD __m256 sums_of(__m256 const (&v)[8]) {
    auto quad = [&](int i) __attribute__((always_inline)) {
        return _mm256_hadd_ps(_mm256_hadd_ps(v[i], v[i + 1]), _mm256_hadd_ps(v[i + 2], v[i + 3]));
    };
    __m256 a = quad(0), b = quad(4);
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
RG_SIMD __m256d sums_of(__m256d const (&v)[4]) {
    __m256d a = _mm256_hadd_pd(v[0], v[1]), b = _mm256_hadd_pd(v[2], v[3]);
    return _mm256_add_pd(_mm256_permute2f128_pd(a, b, 0x20), _mm256_permute2f128_pd(a, b, 0x31));
}

/// The sum of the lanes of each vector in the lane of its number.
template <int n>
RG_SIMD Vec sums_of(Vec const (&v)[n]) {
    decltype(Vec::v) raw[n];
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) raw[i] = v[i].v;
    return {sums_of(raw)};
}

}  // namespace
}  // namespace refactor::kernel
