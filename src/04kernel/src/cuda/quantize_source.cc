#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kQuantizeSource = R"cuda(
// Types of less than a byte and small floats: bits in memory, packed with the low ones first.
struct rg_i4 {}; struct rg_u4 {}; struct rg_i2 {}; struct rg_u2 {}; struct rg_e8m0 {};
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

template <class T> struct rg_packing { static constexpr int bits = sizeof(T) * 8; };
template <> struct rg_packing<rg_i4> { static constexpr int bits = 4; };
template <> struct rg_packing<rg_u4> { static constexpr int bits = 4; };
template <> struct rg_packing<rg_i2> { static constexpr int bits = 2; };
template <> struct rg_packing<rg_u2> { static constexpr int bits = 2; };
template <> struct rg_packing<rg_e8m0> { static constexpr int bits = 8; };
template <int e, int m, int b, int most, int i, int n, bool f> struct rg_packing<rg_minifloat<e, m, b, most, i, n, f>> {
    static constexpr int bits = 1 + e + m;
};
template <class T> struct rg_is_minifloat { static constexpr bool value = false; };
template <int e, int m, int b, int most, int i, int n, bool f>
struct rg_is_minifloat<rg_minifloat<e, m, b, most, i, n, f>> { static constexpr bool value = true; };
template <class T> constexpr bool rg_is_packed =
    rg_packing<T>::bits < 8 || rg_is_minifloat<T>::value || rg_is_same<T, rg_e8m0>::value;
template <class T, bool packed = rg_is_packed<T>> struct rg_is_signed {
    static constexpr bool value = T(-1) < T(0);
};
template <class T> struct rg_is_signed<T, true> {
    static constexpr bool value = rg_is_same<T, rg_i4>::value || rg_is_same<T, rg_i2>::value;
};

// Eight neighbours in memory are as many bytes as an element has bits.
template <class T> struct rg_group {
    typedef typename rg_choose<rg_is_packed<T>, unsigned char, T>::type Unit;
    static constexpr int bits = rg_packing<T>::bits;
    rg_vec<Unit, rg_is_packed<T> ? bits : 8> data;

    RG_MEMBER void load(void const* from, rg_u64 group, int count) {
        Unit const* p = (Unit const*)from + group * (sizeof(data) / sizeof(Unit));
        int units = rg_is_packed<T> ? (count * bits + 7) / 8 : count;
        if (count == 8) data = *(decltype(data) const*)p;
        else
            for (int i = 0; i < units; ++i) data.v[i] = p[i];
    }
    RG_MEMBER void store(void* to, rg_u64 group, int count) const {
        Unit* p = (Unit*)to + group * (sizeof(data) / sizeof(Unit));
        int units = rg_is_packed<T> ? (count * bits + 7) / 8 : count;
        if (count == 8) *(rg_vec<Unit, sizeof(data) / sizeof(Unit)>*)p = data;
        else
            for (int i = 0; i < units; ++i) p[i] = data.v[i];
    }
    RG_MEMBER unsigned code(int i) const {
        return data.v[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
    }
    RG_MEMBER void set_code(int i, unsigned code) {
        unsigned mask = (1u << bits) - 1, shift = i * bits % 8;
        data.v[i * bits / 8] = (Unit)((data.v[i * bits / 8] & ~(mask << shift)) | (code & mask) << shift);
    }
};

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

// Element `i` of a group: f64 for 32-bit integers, else f32.
template <class T> RG_FN auto rg_value(rg_group<T> const& group, int i) {
    if constexpr (rg_is_minifloat<T>::value) {
        return rg_decoded<T>(group.code(i));
    } else if constexpr (rg_is_same<T, rg_e8m0>::value) {
        unsigned code = group.code(i);
        return rg_f32(code == 255 ? 0x7fc00000u : code ? code << 23 : 0x400000u);
    } else if constexpr (rg_is_packed<T>) {
        constexpr int bits = rg_packing<T>::bits;
        int code = (int)group.code(i);
        return (float)(rg_is_signed<T>::value && code >> (bits - 1) ? code - (1 << bits) : code);
    } else if constexpr (rg_is_same<T, int>::value) {
        return (double)group.data.v[i];
    } else {
        return (float)rg_widen(group.data.v[i]);
    }
}
// One element of a tensor.
template <class T> RG_FN float rg_element(void const* data, rg_u64 index) {
    rg_group<T> group;
    constexpr int bits = rg_packing<T>::bits;
    if constexpr (rg_is_packed<T>) {
        constexpr int of_byte = bits < 8 ? 8 / bits : 1;
        group.data.v[0] = ((unsigned char const*)data)[index / of_byte];
        return (float)rg_value(group, (int)(index % of_byte));
    } else {
        group.data.v[0] = ((T const*)data)[index];
        return (float)rg_value(group, 0);
    }
}

enum rg_granularity { rg_scale_one, rg_scale_axis, rg_scale_block };
// Words: x, scale, zero points, y; elements; for scales of an axis or of blocks: elements of an index of the axis,
// indices, those of a block, blocks.
template <int granularity, class Index> RG_FN Index rg_scale_at(Index element, rg_u64 const* w) {
    if constexpr (granularity == rg_scale_one) return 0;
    Index inner = (Index)w[5], size = (Index)w[6], row = element / inner, at = row % size;
    if constexpr (granularity == rg_scale_axis) return at;
    return (row / size * (Index)w[8] + at / (Index)w[7]) * inner + element % inner;
}
template <class P> RG_FN float rg_rounded(float x) { return rg_widen(rg_narrow<P>(x)); }

template <class X, class Scale, class Y, class Precision, int granularity, bool alike, bool zeros, bool saturate,
          class Index>
RG_FN void rg_quantize(rg_u64 const* w) {
    Index group = (Index)blockIdx.x * 256 + threadIdx.x, count = (Index)w[4];
    if (group >= (count + 7) / 8) return;
    int elements = count - group * 8 < 8 ? (int)(count - group * 8) : 8;
    rg_group<X> x;
    rg_group<Y> y = {};
    x.load((void const*)w[0], group, elements);
    constexpr int bits = rg_packing<Y>::bits;
    float scale = 1, zero = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (i >= elements) break;
        if (!alike || i == 0) {
            Index at = rg_scale_at<granularity>((Index)(group * 8 + i), w);
            scale = rg_rounded<Precision>(rg_element<Scale>((void const*)w[1], at));
            if (zeros) zero = rg_element<Y>((void const*)w[2], at);
        }
        float value = rg_rounded<Precision>(rg_rounded<Precision>((float)rg_value(x, i)) / scale);
        if constexpr (rg_is_minifloat<Y>::value) {
            if (zeros && (zero != 0 || rg_is_same<Y, rg_e2m1>::value)) value += zero;
            y.set_code(i, rg_encoded<Y>(value, saturate));
        } else {
            constexpr bool negative = rg_is_signed<Y>::value;
            constexpr float high = (float)((1 << (bits - negative)) - 1), low = negative ? -high - 1 : 0;
            value = m_rint(value) + zero;
            value = value >= low ? value : low;
            int number = (int)(value <= high ? value : high);
            if constexpr (rg_is_packed<Y>) y.set_code(i, (unsigned)number);
            else y.data.v[i] = (Y)number;
        }
    }
    y.store((void*)w[3], group, elements);
}

template <class X, class Scale, class Y, int granularity, bool alike, bool zeros, class Index>
RG_FN void rg_dequantize(rg_u64 const* w) {
    Index group = (Index)blockIdx.x * 256 + threadIdx.x, count = (Index)w[4];
    if (group >= (count + 7) / 8) return;
    int elements = count - group * 8 < 8 ? (int)(count - group * 8) : 8;
    rg_group<X> x;
    rg_group<Y> y;
    x.load((void const*)w[0], group, elements);
    float scale = 1, zero = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (i >= elements) break;
        if (!alike || i == 0) {
            Index at = rg_scale_at<granularity>((Index)(group * 8 + i), w);
            scale = rg_element<Scale>((void const*)w[1], at);
            if (zeros) zero = rg_element<X>((void const*)w[2], at);
        }
        y.data.v[i] = rg_narrow<Y>((float)(rg_value(x, i) - zero) * scale);
    }
    y.store((void*)w[3], group, elements);
}
)cuda";

}  // namespace refactor::kernel::cuda
