#include "cuda/source_text.h"

namespace refactor::kernel::cuda {

char const* const kMinifloatSource = R"cuda(
#ifndef RG_MINIFLOAT
#define RG_MINIFLOAT
// Largest finite code, those of infinity and NaN (0: there is none); `fnuz`: one zero, one NaN, no infinity.
template <int exponent_, int mantissa_, int bias_, int most_, int infinity_, int nan_, bool fnuz_> struct rg_minifloat {
    static constexpr int exponent = exponent_, mantissa = mantissa_, bias = bias_, most = most_;
    static constexpr int infinity = infinity_, nan = nan_, sign = 1 << (exponent_ + mantissa_);
    static constexpr bool fnuz = fnuz_;
};
typedef rg_minifloat<4, 3, 7, 0x7e, 0, 0x7f, false> rg_e4m3fn;
typedef rg_minifloat<4, 3, 8, 0x7f, 0, 0x80, true> rg_e4m3fnuz;
typedef rg_minifloat<5, 2, 15, 0x7b, 0x7c, 0x7e, false> rg_e5m2;
typedef rg_minifloat<5, 2, 16, 0x7f, 0, 0x80, true> rg_e5m2fnuz;
typedef rg_minifloat<2, 1, 1, 0x7, 0, 0, false> rg_e2m1;
RG_FN unsigned rg_bits_of(float x) { return __float_as_uint(x); }

template <class F> RG_FN float rg_decoded(unsigned code) {
    unsigned sign = code & F::sign ? 0x80000000u : 0, magnitude = code & (F::sign - 1);
    if (F::fnuz && code == F::nan) return rg_f32(0x7fc00000u);
    if (F::infinity && magnitude >= F::infinity)
        return rg_f32(sign | 0x7f800000u | (magnitude > F::infinity ? 0x400000u : 0));
    if (!F::fnuz && !F::infinity && F::nan && magnitude == F::nan) return rg_f32(sign | 0x7fc00000u);
    unsigned mantissa = magnitude & ((1u << F::mantissa) - 1), exponent = magnitude >> F::mantissa;
    // Both are exact: normal numbers 2^(e - bias) (1 + m / 2^M), subnormal ones 2^(1 - bias) m / 2^M.
    float unit = rg_f32(((exponent ? exponent : 1) + 127 - F::bias) << 23);
    float value = ((exponent ? 1.f : 0.f) + (float)mantissa * rg_f32((127 - F::mantissa) << 23)) * unit;
    return sign ? -value : value;
}
// Rounds to nearest, ties to even; `saturate`: what is out of range becomes the largest finite value.
template <class F> RG_FN unsigned rg_encoded(float value, bool saturate) {
    unsigned bits = rg_bits_of(value), magnitude = bits & 0x7fffffffu, sign = bits >> 31 ? F::sign : 0;
    if (magnitude > 0x7f800000u) {
        if (F::fnuz) return F::nan;
        if (F::infinity) return sign | F::nan | (magnitude & 0x7fffffu) >> (23 - F::mantissa);
        return F::nan ? sign | F::nan : F::sign;
    }
    unsigned code = F::most + 1;
    if (magnitude < 0x7f800000u) {
        int exponent = (int)(magnitude >> 23) - 127, least = 1 - F::bias;
        unsigned significand = magnitude & 0x7fffffu;
        if (exponent == -127) exponent = -126;
        else significand |= 0x800000u;
        int shift = 23 - F::mantissa + (exponent < least ? least - exponent : 0);
        unsigned rounded =
            shift > 25 ? 0 : (significand + (1u << (shift - 1)) - 1 + (significand >> shift & 1)) >> shift;
        code = exponent < least ? rounded : ((unsigned)(exponent - least) << F::mantissa) + rounded;
    }
    if (code > F::most) {
        if (saturate || !F::nan) code = F::most;
        else if (F::infinity) code = F::infinity;
        else if (F::fnuz) return F::nan;
        else code = F::nan;
    }
    return F::fnuz && code == 0 ? 0 : sign | code;
}
// An element of an expression, which is computed in f32.
template <class F> RG_FN unsigned char rg_to_f8(float x) { return (unsigned char)rg_encoded<F>(x, true); }
template <class F> RG_FN float rg_round_f8(float x) { return rg_decoded<F>(rg_encoded<F>(x, true)); }
#endif
)cuda";

char const* minifloat_text(DataType type) {
    switch (type) {
        case DataType::F8E4M3FN:
            return "rg_e4m3fn";
        case DataType::F8E4M3FNUZ:
            return "rg_e4m3fnuz";
        case DataType::F8E5M2:
            return "rg_e5m2";
        case DataType::F8E5M2FNUZ:
            return "rg_e5m2fnuz";
        case DataType::F4E2M1:
            return "rg_e2m1";
        default:
            return nullptr;
    }
}

}  // namespace refactor::kernel::cuda
