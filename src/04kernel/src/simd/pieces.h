#pragma once
// Part of `simd/math.h`: functions by polynomials for pieces of the axis, picked by a permutation.

namespace refactor::kernel {
namespace {

#ifdef __AVX512F__
constexpr int kPieces = 16, kCoefficients = 6;
constexpr float kFirst = 0, kLast = 5.75f, kWidthOfPiece = 0.375f, kPiecesPerUnit = 2.66666667f;
RG_SIMD Vec piece_of(float const (&table)[kPieces], Vec number) {
    return {_mm512_permutexvar_ps(_mm512_castps_si512(number.v), _mm512_load_ps(table))};
}
#else
/// Around the middles of pieces of 23/32. A little fewer in a unit, so that 0 does not round down to number -1.
constexpr int kPieces = 8, kCoefficients = 7;
constexpr float kFirst = 0.359375f, kLast = 5.7f - kFirst, kWidthOfPiece = 0.71875f, kPiecesPerUnit = 1.3913f;
RG_SIMD Vec piece_of(float const (&table)[kPieces], Vec number) {
    return {_mm256_permutevar8x32_ps(_mm256_load_ps(table), _mm256_castps_si256(number.v))};
}
#endif
RG_SIMD Pack piece_of(float const (&table)[kPieces], Pack number) {
    return Pack::each([&](int i) __attribute__((always_inline)) { return piece_of(table, number.v[i]); });
}

#ifdef __AVX512F__
/// Error function, at most 1.1 ulp: an odd polynomial below 0.9277, 1 - e^q above (coefficients: N. Juffa,
/// stackoverflow.com/a/35148199).
RG_SIMD Vec erf(Vec x) {
    Vec t = abs(x), s = x * x;
    Vec q = fma(Vec::set(-1.72853470e-5f), t, Vec::set(3.83197126e-4f));
    Vec u = fma(Vec::set(-3.88396438e-3f), t, Vec::set(2.42546219e-2f));
    q = fma(q, s, u);
    q = fma(q, t, Vec::set(-1.06777877e-1f));
    q = fma(q, t, Vec::set(-6.34846687e-1f));
    q = fma(q, t, Vec::set(-1.28717512e-1f));
    // Beyond 4 the result is 1; the bound keeps q finite.
    Vec b = min(Vec::set(10.f), t);
    q = select(t > Vec::set(4.f), Vec::set(-20.f), fma(q, b, -b));
    Vec large = copysign(Vec::set(1.f) - exp_of_negative(q), x);
    Vec p = Vec::set(-5.96761703e-4f);
    p = fma(p, s, Vec::set(4.99119423e-3f));
    p = fma(p, s, Vec::set(-2.67681349e-2f));
    p = fma(p, s, Vec::set(1.12819925e-1f));
    p = fma(p, s, Vec::set(-3.76125336e-1f));
    p = fma(p, s, Vec::set(1.28379166e-1f));
    return select(t > Vec::set(0.927734375f), large, fma(p, x, x));
}
RG_SIMD Pack erf(Pack x) {
    return Pack::each([&](int i) __attribute__((always_inline)) { return erf(x.v[i]); });
}
#else
/// Error function, at most 2.5 ulp: t q(t) with t = min(|x|, 3.95), from where it is 1. Pieces of q = erf(t) / t are
/// polynomials around their middles, off by 3e-8 of themselves.
template <class V>
RG_SIMD V erf(V x) {
    constexpr float kMiddle = 0.25f, kPieceWidth = 0.5f;
    alignas(32) static constexpr float kQuotient[kCoefficients][kPieces] = {
        {-0.01782896f, 0.0150097348f, 0.00964609534f, -0.00265225256f, -0.00187875656f, -0.000712818233f,
         0.000805281976f, -0.00164649903f},
        {-0.0350250416f, -0.0374036543f, 0.00817941129f, 0.0149213914f, 0.00354100275f, -0.000685473613f,
         -0.000706422259f, -0.000372793351f},
        {0.0889994875f, -0.0249506272f, -0.0579377301f, -0.0197477955f, 0.00276069716f, 0.00475617824f, 0.00258325972f,
         0.00151145237f},
        {0.104696743f, 0.169334278f, 0.0663341433f, -0.0136771258f, -0.025505824f, -0.0162388962f, -0.00889378041f,
         -0.00505346479f},
        {-0.335350275f, -0.100214772f, 0.0846287385f, 0.114096418f, 0.0791122168f, 0.0474146008f, 0.0291001368f,
         0.01895798f},
        {-0.181165591f, -0.407035261f, -0.40143919f, -0.292021364f, -0.194067568f, -0.132004902f, -0.0946651623f,
         -0.0711108744f},
        {1.10530555f, 0.948207498f, 0.738320112f, 0.563812375f, 0.44379434f, 0.363599777f, 0.307690978f, 0.266666651f}};
    // NaN, the second operand, stays NaN.
    V bias = V::set(12582912.f), t = min(V::set(3.95f), abs(x)), from_middle = t - V::set(kMiddle);
    V biased = fma(from_middle, V::set(1 / kPieceWidth), bias);
    V r = fnma(biased - bias, V::set(kPieceWidth), from_middle), q = piece_of(kQuotient[0], biased);
#pragma GCC unroll 6
    for (int i = 1; i < kCoefficients; ++i) q = fma(q, r, piece_of(kQuotient[i], biased));
    return bit_or(min(V::set(1.f), t * q), bit_and(x, V::set(-0.f)));
}
#endif

}  // namespace
}  // namespace refactor::kernel
