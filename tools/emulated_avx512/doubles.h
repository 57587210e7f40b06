#pragma once
// Vectors of 8 doubles, as `floats.h` and `masked.h` have those of 16 floats.
#include "masked.h"

#include <cmath>
#include <limits>

namespace refactor {
namespace {

struct DoubleHalves {
    __m256d low, high;
};
RG_EMULATED DoubleHalves halves(__m512d a) {
    DoubleHalves h;
    std::memcpy(&h, &a, sizeof h);
    return h;
}
RG_EMULATED __m512d join(__m256d low, __m256d high) {
    DoubleHalves h{low, high};
    __m512d a;
    std::memcpy(&a, &h, sizeof a);
    return a;
}

RG_EMULATED __m512d _mm512_set1_pd(double x) { return join(_mm256_set1_pd(x), _mm256_set1_pd(x)); }
RG_EMULATED __m512d _mm512_setzero_pd() { return _mm512_set1_pd(0); }
RG_EMULATED __m512d _mm512_loadu_pd(void const* p) {
    auto const* x = static_cast<double const*>(p);
    return join(_mm256_loadu_pd(x), _mm256_loadu_pd(x + 4));
}
RG_EMULATED void _mm512_storeu_pd(void* p, __m512d a) {
    auto* x = static_cast<double*>(p);
    _mm256_storeu_pd(x, halves(a).low);
    _mm256_storeu_pd(x + 4, halves(a).high);
}

RG_EMULATED __m512d _mm512_castps_pd(__m512 a) {
    __m512d b;
    std::memcpy(&b, &a, sizeof b);
    return b;
}
RG_EMULATED __m512 _mm512_castpd_ps(__m512d a) {
    __m512 b;
    std::memcpy(&b, &a, sizeof b);
    return b;
}
RG_EMULATED __m512d _mm512_cvtps_pd(__m256 a) {
    return join(_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1)));
}
RG_EMULATED __m256 _mm512_cvtpd_ps(__m512d a) {
    return _mm256_set_m128(_mm256_cvtpd_ps(halves(a).high), _mm256_cvtpd_ps(halves(a).low));
}

#define RG_OF_TWO(name)                                                                                          \
    RG_EMULATED __m512d _mm512_##name(__m512d a, __m512d b) {                                                    \
        return join(_mm256_##name(halves(a).low, halves(b).low), _mm256_##name(halves(a).high, halves(b).high)); \
    }
#define RG_OF_THREE(name)                                                           \
    RG_EMULATED __m512d _mm512_##name(__m512d a, __m512d b, __m512d c) {            \
        return join(_mm256_##name(halves(a).low, halves(b).low, halves(c).low),     \
                    _mm256_##name(halves(a).high, halves(b).high, halves(c).high)); \
    }
RG_OF_TWO(add_pd)
RG_OF_TWO(and_pd)
RG_OF_TWO(andnot_pd)
RG_OF_TWO(div_pd)
RG_OF_TWO(max_pd)
RG_OF_TWO(min_pd)
RG_OF_TWO(mul_pd)
RG_OF_TWO(or_pd)
RG_OF_TWO(sub_pd)
RG_OF_TWO(unpackhi_pd)
RG_OF_TWO(unpacklo_pd)
RG_OF_TWO(xor_pd)
RG_OF_THREE(fmadd_pd)
RG_OF_THREE(fnmadd_pd)
#undef RG_OF_TWO
#undef RG_OF_THREE
RG_EMULATED __m512d _mm512_sqrt_pd(__m512d a) {
    return join(_mm256_sqrt_pd(halves(a).low), _mm256_sqrt_pd(halves(a).high));
}

/// To integers only, as the low bits of `control` say.
RG_EMULATED __m512d _mm512_roundscale_pd(__m512d a, int control) {
    auto [low, high] = halves(a);
    switch (control & 3) {
        case 0:
            return join(_mm256_round_pd(low, 8), _mm256_round_pd(high, 8));
        case 1:
            return join(_mm256_round_pd(low, 9), _mm256_round_pd(high, 9));
        case 2:
            return join(_mm256_round_pd(low, 10), _mm256_round_pd(high, 10));
        default:
            return join(_mm256_round_pd(low, 11), _mm256_round_pd(high, 11));
    }
}
RG_EMULATED __m512d _mm512_scalef_pd(__m512d a, __m512d b) {
    Elements<double, __m512d> x(a), n(b);
    for (int i = 0; i < 8; ++i) {
        double exponent = std::floor(n.x[i]);
        if (std::isnan(n.x[i]) || std::isnan(x.x[i]))
            x.x[i] += n.x[i];
        else if (std::isinf(n.x[i]) && (n.x[i] > 0 ? x.x[i] == 0 : std::isinf(x.x[i])))
            x.x[i] = std::numeric_limits<double>::quiet_NaN();
        else
            x.x[i] = std::ldexp(x.x[i], static_cast<int>(std::fmax(-5000, std::fmin(5000, exponent))));
    }
    return x.vector();
}
/// `_mm512_getmant_pd` of numbers that are finite and not zero, in [1, 2) and with their signs.
RG_EMULATED __m512d mantissas_of(__m512d a) {
    Elements<double, __m512d> x(a);
    for (double& element : x.x) {
        int exponent;
        element = 2 * std::frexp(element, &exponent);
    }
    return x.vector();
}
RG_EMULATED __m512d _mm512_getexp_pd(__m512d a) {
    Elements<double, __m512d> x(a);
    for (double& element : x.x) element = std::logb(element);
    return x.vector();
}

RG_EMULATED __m512d _mm512_shuffle_f64x2(__m512d a, __m512d b, int order) {
    Elements<double, __m512d> x(a), y(b), z(a);
    for (int i = 0; i < 8; ++i) z.x[i] = (i < 4 ? x : y).x[(order >> i / 2 * 2 & 3) * 2 + i % 2];
    return z.vector();
}
RG_EMULATED __m512d _mm512_permutex2var_pd(__m512d a, __m512i index, __m512d b) {
    Elements<uint64_t, __m512i> from(index);
    Elements<double, __m512d> x(a), y(b), z(a);
    for (int i = 0; i < 8; ++i) z.x[i] = (from.x[i] & 8 ? y : x).x[from.x[i] & 7];
    return z.vector();
}
RG_EMULATED __m512i _mm512_castpd_si512(__m512d a) {
    return join(_mm256_castpd_si256(halves(a).low), _mm256_castpd_si256(halves(a).high));
}
RG_EMULATED __m512d _mm512_castsi512_pd(__m512i a) {
    return join(_mm256_castsi256_pd(halves(a).low), _mm256_castsi256_pd(halves(a).high));
}
RG_EMULATED __m512i _mm512_slli_epi64(__m512i a, int count) {
    return join(_mm256_slli_epi64(halves(a).low, count), _mm256_slli_epi64(halves(a).high, count));
}

template <int predicate>
RG_EMULATED __mmask8 compared(__m512d a, __m512d b) {
    int low = _mm256_movemask_pd(_mm256_cmp_pd(halves(a).low, halves(b).low, predicate));
    int high = _mm256_movemask_pd(_mm256_cmp_pd(halves(a).high, halves(b).high, predicate));
    return static_cast<__mmask8>(low | high << 4);
}
RG_EMULATED __mmask8 _mm512_cmp_pd_mask(__m512d a, __m512d b, int predicate) {
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
        case _CMP_ORD_Q:
            return compared<_CMP_ORD_Q>(a, b);
        case _CMP_UNORD_Q:
            return compared<_CMP_UNORD_Q>(a, b);
        default:
            __builtin_trap();
    }
}

/// The tree of halves that g++ makes of it.
template <class F>
RG_EMULATED double reduced(__m512d a, F f) {
    Elements<double, __m256d> x(f(halves(a).high, halves(a).low));
    auto of = [&](double left, double right) {
        return _mm256_cvtsd_f64(f(_mm256_set1_pd(left), _mm256_set1_pd(right)));
    };
    return of(of(x.x[2], x.x[0]), of(x.x[3], x.x[1]));
}
RG_EMULATED double _mm512_reduce_add_pd(__m512d a) {
    return reduced(a, [](__m256d x, __m256d y) { return _mm256_add_pd(x, y); });
}
RG_EMULATED double _mm512_reduce_max_pd(__m512d a) {
    return reduced(a, [](__m256d x, __m256d y) { return _mm256_max_pd(x, y); });
}
RG_EMULATED double _mm512_reduce_min_pd(__m512d a) {
    return reduced(a, [](__m256d x, __m256d y) { return _mm256_min_pd(x, y); });
}

}  // namespace
}  // namespace refactor
