#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

// Behind `kQuantizeSource`.
char const* const kConvertSource = R"cuda(
// An element without loss: f32 or f64, or an integer of 64 bits.
template <class T> RG_FN auto rg_exact(rg_group<T> const& group, int i) {
    if constexpr (rg_is_minifloat<T>::value || rg_is_same<T, rg_e8m0>::value) return rg_value(group, i);
    else if constexpr (rg_is_packed<T>) return (rg_i64)rg_value(group, i);
    else return rg_widen(group.data.v[i]);
}
// An f32 that rounds to a narrower float as x does: cut, with the lowest bit set where something was cut off.
RG_FN float rg_odd(float x) { return x; }
RG_FN float rg_odd(double x) {
    float nearest = (float)x;
    if (x != x || (double)nearest == x) return nearest;
    unsigned bits = rg_bits_of(nearest);
    if (m_fabs((double)nearest) > m_fabs(x)) --bits;
    return rg_f32(bits | 1u);
}
RG_FN float rg_odd(rg_u64 x) {
    int shift = 40 - __clzll((rg_i64)(x | 1));
    if (shift > 0) {
        rg_u64 kept = x >> shift;
        if (kept << shift != x) kept |= 1;
        x = kept << shift;
    }
    return (float)x;
}
RG_FN float rg_odd(rg_i64 x) { return x < 0 ? -rg_odd((rg_u64)0 - (rg_u64)x) : rg_odd((rg_u64)x); }

enum rg_rounding { rg_rounding_up, rg_rounding_down, rg_rounding_nearest };
// A power of two for a number that has no sign; NaN for others.
template <int rounding> RG_FN unsigned rg_scale_code(float x, bool saturate) {
    unsigned bits = rg_bits_of(x), magnitude = bits & 0x7fffffffu;
    if ((bits >> 31 && magnitude) || magnitude > 0x7f800000u) return 255;
    if (magnitude == 0x7f800000u) return saturate ? 254 : 255;
    bool up = rounding == rg_rounding_up, nearest = rounding == rg_rounding_nearest;
    if (magnitude < 0x400000u) {
        bool reached = nearest ? magnitude > 0x200000u : up && magnitude;
        return saturate || reached ? 0 : 255;
    }
    unsigned exponent = magnitude >> 23, rest = magnitude & (exponent ? 0x7fffffu : 0x3fffffu);
    exponent += up ? rest != 0 : nearest && rest >= (exponent ? 0x400000u : 0x200000u);
    return exponent > 254 ? (saturate ? 254 : 255) : exponent;
}

// Words: x, y; elements.
template <class X, class Y, bool saturate, int rounding, class Index> RG_FN void rg_convert(rg_u64 const* w) {
    Index group = (Index)blockIdx.x * 256 + threadIdx.x, count = (Index)w[2];
    if (group >= (count + 7) / 8) return;
    int elements = count - group * 8 < 8 ? (int)(count - group * 8) : 8;
    rg_group<X> x;
    rg_group<Y> y = {};
    x.load((void const*)w[0], group, elements);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (i >= elements) break;
        auto value = rg_exact(x, i);
        if constexpr (rg_is_minifloat<Y>::value) {
            y.set_code(i, rg_encoded<Y>(rg_odd(value), saturate));
        } else if constexpr (rg_is_same<Y, rg_e8m0>::value) {
            y.set_code(i, rg_scale_code<rounding>(rg_odd(value), saturate));
        } else if constexpr (rg_is_packed<Y>) {
            y.set_code(i, (unsigned)rg_Cast<int>(value));
        } else if constexpr (rg_is_same<Y, rg_f16>::value || rg_is_same<Y, rg_bf16>::value) {
            y.data.v[i] = rg_narrow<Y>(rg_odd(value));
        } else {
            y.data.v[i] = rg_Cast<Y>(value);
        }
    }
    y.store((void*)w[1], group, elements);
}
// The bits alone: types of equal width.
template <class T> RG_FN void rg_same_bits(rg_u64 const* w) {
    rg_u64 group = (rg_u64)blockIdx.x * 256 + threadIdx.x, count = w[2];
    if (group >= (count + 7) / 8) return;
    int elements = count - group * 8 < 8 ? (int)(count - group * 8) : 8;
    rg_group<T> x;
    x.load((void const*)w[0], group, elements);
    x.store((void*)w[1], group, elements);
}
)cuda";

}  // namespace refactor::kernel::cuda
