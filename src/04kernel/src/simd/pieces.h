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

/// Error function, at most 2.5 ulp: t q(t) with t = min(|x|, 3.95), from where it is 1. Pieces of q = erf(t) / t are
/// polynomials around their middles, off by 3e-8 (2.6e-8 on AVX-512) of themselves.
template <class V>
RG_SIMD V erf(V x) {
#ifdef __AVX512F__
    constexpr float kMiddle = 0, kPieceWidth = 0.2625f;
    alignas(64) static constexpr float kQuotient[kCoefficients][kPieces] = {
        {-4.50401265e-14f, -0.0372464284f, -0.0499650277f, -0.0341281667f, -0.00788077433f, 0.0114773521f,
         0.0172271598f, 0.0126670282f, 0.00652194628f, 0.00195197843f, -0.000422896846f, -0.000868112431f,
         -0.000728943502f, -0.00059350807f, -0.000425555132f, -0.000212423169f},
        {0.110540979f, 0.0874053985f, 0.0273302682f, -0.0317389257f, -0.0582297295f, -0.053962037f, -0.0340703875f,
         -0.0129602533f, -0.00101884687f, 0.00397353852f, 0.00542331114f, 0.00409014104f, 0.0028911843f, 0.00221199449f,
         0.00161410996f, 0.000827407057f},
        {8.28443009e-16f, 0.109118961f, 0.169826508f, 0.165091559f, 0.114280157f, 0.0522204004f, 0.00500404323f,
         -0.0194560904f, -0.0262294859f, -0.0238588378f, -0.0186914094f, -0.0137909101f, -0.0100284023f,
         -0.00734936446f, -0.0054778615f, -0.00416055648f},
        {-0.376094609f, -0.331358045f, -0.21730347f, -0.0813895538f, 0.030492045f, 0.0957192332f, 0.116813391f,
         0.109686643f, 0.0908346176f, 0.0707670674f, 0.0539532565f, 0.0412338004f, 0.0319351815f, 0.0251518171f,
         0.0201439448f, 0.0163846668f},
        {-1.20280385e-18f, -0.189499736f, -0.335615188f, -0.413842767f, -0.425429314f, -0.390139103f, -0.332715869f,
         -0.272417456f, -0.21955049f, -0.177217469f, -0.144657627f, -0.119838938f, -0.100762628f, -0.0858695954f,
         -0.0740427896f, -0.0644998178f},
        {1.12837911f, 1.10298884f, 1.03274786f, 0.932811618f, 0.821367741f, 0.713576078f, 0.618462563f, 0.539123833f,
         0.474771678f, 0.422927171f, 0.380874157f, 0.346304983f, 0.317457646f, 0.293039888f, 0.272108793f,
         0.253968239f}};
#else
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
#endif
    // NaN, the second operand, stays NaN.
    V bias = V::set(12582912.f), t = min(V::set(3.95f), abs(x)), from_middle = t - V::set(kMiddle);
    V biased = fma(from_middle, V::set(1 / kPieceWidth), bias);
    V r = fnma(biased - bias, V::set(kPieceWidth), from_middle), q = piece_of(kQuotient[0], biased);
#pragma GCC unroll 6
    for (int i = 1; i < kCoefficients; ++i) q = fma(q, r, piece_of(kQuotient[i], biased));
    return bit_or(min(V::set(1.f), t * q), bit_and(x, V::set(-0.f)));
}

}  // namespace
}  // namespace refactor::kernel
