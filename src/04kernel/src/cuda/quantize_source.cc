#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kQuantizeSource = R"cuda(
// Behind `kMinifloatSource`. Types of less than a byte and small floats: bits in memory, packed with the low ones first.
struct rg_i4 {}; struct rg_u4 {}; struct rg_i2 {}; struct rg_u2 {}; struct rg_e8m0 {};
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
