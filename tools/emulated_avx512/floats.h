#pragma once
// Vectors of 16 floats.
#include "lanes.h"

#include <cmath>
#include <limits>

namespace refactor {
namespace {

RG_EMULATED __m512 _mm512_set1_ps(float x) { return join(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
RG_EMULATED __m512 _mm512_setzero_ps() { return _mm512_set1_ps(0); }
template <class... T>
RG_EMULATED __m512 _mm512_setr_ps(T... x) {
    static_assert(sizeof...(T) == 16);
    return __m512{static_cast<float>(x)...};
}
RG_EMULATED __m512 _mm512_loadu_ps(void const* p) {
    auto const* x = static_cast<float const*>(p);
    return join(_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8));
}
RG_EMULATED __m512 _mm512_load_ps(void const* p) {
    want_aligned(p);
    return _mm512_loadu_ps(p);
}
RG_EMULATED void _mm512_storeu_ps(void* p, __m512 a) {
    auto* x = static_cast<float*>(p);
    _mm256_storeu_ps(x, halves(a).low);
    _mm256_storeu_ps(x + 8, halves(a).high);
}
RG_EMULATED void _mm512_stream_ps(float* p, __m512 a) {
    want_aligned(p);
    _mm256_stream_ps(p, halves(a).low);
    _mm256_stream_ps(p + 8, halves(a).high);
}

#define RG_OF_ONE(name)                                                           \
    RG_EMULATED __m512 _mm512_##name(__m512 a) {                                  \
        return join(_mm256_##name(halves(a).low), _mm256_##name(halves(a).high)); \
    }
#define RG_OF_TWO(name)                                                                                          \
    RG_EMULATED __m512 _mm512_##name(__m512 a, __m512 b) {                                                       \
        return join(_mm256_##name(halves(a).low, halves(b).low), _mm256_##name(halves(a).high, halves(b).high)); \
    }
#define RG_OF_THREE(name)                                                           \
    RG_EMULATED __m512 _mm512_##name(__m512 a, __m512 b, __m512 c) {                \
        return join(_mm256_##name(halves(a).low, halves(b).low, halves(c).low),     \
                    _mm256_##name(halves(a).high, halves(b).high, halves(c).high)); \
    }
RG_OF_ONE(sqrt_ps)
RG_OF_TWO(add_ps)
RG_OF_TWO(and_ps)
RG_OF_TWO(andnot_ps)
RG_OF_TWO(div_ps)
RG_OF_TWO(max_ps)
RG_OF_TWO(min_ps)
RG_OF_TWO(mul_ps)
RG_OF_TWO(or_ps)
RG_OF_TWO(sub_ps)
RG_OF_TWO(unpackhi_ps)
RG_OF_TWO(unpacklo_ps)
RG_OF_TWO(xor_ps)
RG_OF_THREE(fmadd_ps)
RG_OF_THREE(fnmadd_ps)
#undef RG_OF_ONE
#undef RG_OF_TWO
#undef RG_OF_THREE

RG_EMULATED __m512 _mm512_abs_ps(__m512 a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.f), a); }

/// To integers only, as the low bits of `control` say.
RG_EMULATED __m512 _mm512_roundscale_ps(__m512 a, int control) {
    auto [low, high] = halves(a);
    switch (control & 3) {
        case 0:
            return join(_mm256_round_ps(low, 8), _mm256_round_ps(high, 8));
        case 1:
            return join(_mm256_round_ps(low, 9), _mm256_round_ps(high, 9));
        case 2:
            return join(_mm256_round_ps(low, 10), _mm256_round_ps(high, 10));
        default:
            return join(_mm256_round_ps(low, 11), _mm256_round_ps(high, 11));
    }
}
/// Less the nearest integer (`control` 8 alone); 0 of infinities.
RG_EMULATED __m512 _mm512_reduce_ps(__m512 a, int control) {
    if (control != 8) __builtin_trap();
    Elements<float, __m512> x(a), n(_mm512_roundscale_ps(a, control));
    for (int i = 0; i < 16; ++i) x.x[i] = std::isinf(x.x[i]) ? 0 : x.x[i] - n.x[i];
    return x.vector();
}
RG_EMULATED __m512 _mm512_scalef_ps(__m512 a, __m512 b) {
    Elements<float, __m512> x(a), n(b);
    for (int i = 0; i < 16; ++i) {
        float exponent = std::floor(n.x[i]);
        if (std::isnan(n.x[i]) || std::isnan(x.x[i]))
            x.x[i] += n.x[i];
        else if (std::isinf(n.x[i]) && (n.x[i] > 0 ? x.x[i] == 0 : std::isinf(x.x[i])))
            x.x[i] = std::numeric_limits<float>::quiet_NaN();
        else
            x.x[i] = std::ldexp(x.x[i], static_cast<int>(std::fmax(-1000, std::fmin(1000, exponent))));
    }
    return x.vector();
}
/// `_mm512_getmant_ps` of numbers that are finite and not zero, in [1, 2) and with their signs.
RG_EMULATED __m512 mantissas_of(__m512 a) {
    Elements<float, __m512> x(a);
    for (float& element : x.x) {
        int exponent;
        element = 2 * std::frexp(element, &exponent);
    }
    return x.vector();
}
RG_EMULATED __m512 _mm512_getexp_ps(__m512 a) {
    Elements<float, __m512> x(a);
    for (float& element : x.x) element = std::logb(element);
    return x.vector();
}

RG_EMULATED __m512 _mm512_shuffle_ps(__m512 a, __m512 b, int order) {
    Elements<float, __m512> x(a), y(b), z(a);
    for (int i = 0; i < 16; ++i) z.x[i] = (i % 4 < 2 ? x : y).x[i / 4 * 4 + (order >> i % 4 * 2 & 3)];
    return z.vector();
}
RG_EMULATED __m512 _mm512_shuffle_f32x4(__m512 a, __m512 b, int order) {
    Elements<float, __m512> x(a), y(b), z(a);
    for (int i = 0; i < 16; ++i) z.x[i] = (i < 8 ? x : y).x[(order >> i / 4 * 2 & 3) * 4 + i % 4];
    return z.vector();
}
RG_EMULATED __m512 _mm512_permutexvar_ps(__m512i index, __m512 a) {
    Elements<float, __m512> x(a), z(a);
    Elements<uint32_t, __m512i> from(index);
    for (int i = 0; i < 16; ++i) z.x[i] = x.x[from.x[i] & 15];
    return z.vector();
}

/// Of its kinds the smaller magnitude with the sign of the first operand.
RG_EMULATED __m512 _mm512_range_ps(__m512 a, __m512 b, int kind) {
    if (kind != 0b0010) __builtin_trap();
    Elements<float, __m512> x(a), y(b), z(a);
    for (int i = 0; i < 16; ++i) {
        float first = __builtin_fabsf(x.x[i]), second = __builtin_fabsf(y.x[i]);
        z.x[i] = __builtin_copysignf(first < second || second != second ? first : second, x.x[i]);
    }
    return z.vector();
}

RG_EMULATED float _mm512_cvtss_f32(__m512 a) { return Elements<float, __m512>(a).x[0]; }
RG_EMULATED __m128 _mm512_castps512_ps128(__m512 a) { return _mm256_castps256_ps128(halves(a).low); }
RG_EMULATED __m512i _mm512_castps_si512(__m512 a) {
    return join(_mm256_castps_si256(halves(a).low), _mm256_castps_si256(halves(a).high));
}
RG_EMULATED __m512 _mm512_castsi512_ps(__m512i a) {
    return join(_mm256_castsi256_ps(halves(a).low), _mm256_castsi256_ps(halves(a).high));
}
RG_EMULATED __m512 _mm512_cvtepi32_ps(__m512i a) {
    return join(_mm256_cvtepi32_ps(halves(a).low), _mm256_cvtepi32_ps(halves(a).high));
}
RG_EMULATED __m512i _mm512_cvtps_epi32(__m512 a) {
    return join(_mm256_cvtps_epi32(halves(a).low), _mm256_cvtps_epi32(halves(a).high));
}
RG_EMULATED __m512i _mm512_cvttps_epi32(__m512 a) {
    return join(_mm256_cvttps_epi32(halves(a).low), _mm256_cvttps_epi32(halves(a).high));
}
RG_EMULATED __m512 _mm512_cvtph_ps(__m256i a) {
    return join(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}

/// The tree of halves that g++ makes of it.
template <class F>
RG_EMULATED float reduced(__m512 a, F f) {
    __m256 eight = f(halves(a).high, halves(a).low);
    Elements<float, __m256> x(eight);
    auto of = [&](float left, float right) { return _mm256_cvtss_f32(f(_mm256_set1_ps(left), _mm256_set1_ps(right))); };
    float four[4];
    for (int i = 0; i < 4; ++i) four[i] = of(x.x[4 + i], x.x[i]);
    return of(of(four[2], four[0]), of(four[3], four[1]));
}
RG_EMULATED float _mm512_reduce_add_ps(__m512 a) {
    return reduced(a, [](__m256 x, __m256 y) { return _mm256_add_ps(x, y); });
}
RG_EMULATED float _mm512_reduce_max_ps(__m512 a) {
    return reduced(a, [](__m256 x, __m256 y) { return _mm256_max_ps(x, y); });
}
RG_EMULATED float _mm512_reduce_min_ps(__m512 a) {
    return reduced(a, [](__m256 x, __m256 y) { return _mm256_min_ps(x, y); });
}

}  // namespace
}  // namespace refactor
