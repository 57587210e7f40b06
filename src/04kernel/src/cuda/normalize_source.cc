#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kNormalizeSource = R"cuda(
// Number of elements, their mean and the sum of squared distances from it (Chan, Golub and LeVeque 1979); with `rms`
// the sum of squares alone.
template <bool rms, class W> struct rg_moments {
    W count, mean, square;
    static RG_MEMBER rg_moments none() { return {W(0), W(0), W(0)}; }
    RG_MEMBER void merge(rg_moments o) {
        if constexpr (rms) {
            count += o.count, square += o.square;
        } else {
            W all = count + o.count, distance = o.mean - mean;
            if (all == W(0)) return;
            mean = (mean * count + o.mean * o.count) / all;
            square += o.square + distance * distance * (count * o.count / all);
            count = all;
        }
    }
    RG_MEMBER rg_moments exchanged(int step) const {
        return {rg_exchanged(count, step), rg_exchanged(mean, step), rg_exchanged(square, step)};
    }
    RG_MEMBER W factor(W epsilon) const { return W(1) / m_sqrt(square / count + epsilon); }
};

// Words: x, scale, bias, residual, y, sum, parts (null: there is none); sets, vectors of a set, bits of epsilon (f32),
// steps of scale and bias (0: one element for all); for channels: groups, channels of a group, vectors of a channel;
// blocks of a set.
template <class T, int kVector> struct rg_normalize_set {
    typedef rg_wide<T> W;
    typedef rg_vec<T, kVector> Vector;
    Vector const *x, *residual;
    Vector *y, *sum;
    RG_MEMBER rg_normalize_set(rg_u64 const* w, rg_u64 set) {
        rg_u64 first = set * w[8];
        x = (Vector const*)w[0] + first, y = (Vector*)w[4] + first;
        residual = w[3] ? (Vector const*)w[3] + first : (Vector const*)0;
        sum = w[5] ? (Vector*)w[5] + first : (Vector*)0;
    }
    // In two steps, between which other loads are on their way.
    RG_MEMBER void fetch(rg_u64 i, rg_raw<Vector>& in, rg_raw<Vector>& more) const {
        in = ((rg_raw<Vector> const*)x)[i];
        if (residual) more = ((rg_raw<Vector> const*)residual)[i];
    }
    RG_MEMBER void take(rg_raw<Vector> const& in, rg_raw<Vector> const& more, W (&v)[kVector]) const {
        Vector one = rg_taken<Vector>(in);
#pragma unroll
        for (int k = 0; k < kVector; ++k) v[k] = rg_widen(one.v[k]);
        if (!residual) return;
        one = rg_taken<Vector>(more);
#pragma unroll
        for (int k = 0; k < kVector; ++k) v[k] += rg_widen(one.v[k]);
    }
    RG_MEMBER void load(rg_u64 i, W (&v)[kVector]) const {
        rg_raw<Vector> in, more = {};
        fetch(i, in, more);
        take(in, more, v);
    }
};
// Scale and bias of the `kVector` elements from vector `i` of a set on.
template <class T, int kVector, bool channels> struct rg_affine {
    typedef rg_wide<T> W;
    typedef rg_vec<T, kVector> Vector;
    T const *scale, *bias;
    rg_u64 scale_step, bias_step, positions;
    RG_MEMBER rg_affine(rg_u64 const* w, rg_u64 set) {
        rg_u64 first = channels ? set % w[12] * w[13] : 0;
        scale = (T const*)w[1] + first, bias = w[2] ? (T const*)w[2] + first : (T const*)0;
        scale_step = w[10], bias_step = w[11], positions = channels ? w[14] : 1;
    }
    RG_MEMBER void get(rg_u64 i, W (&a)[kVector], W (&b)[kVector]) const {
        if constexpr (channels) {
            rg_u64 channel = i / positions;
            W one_scale = rg_widen(scale[channel]), one_bias = rg_widen(bias[channel]);
#pragma unroll
            for (int k = 0; k < kVector; ++k) a[k] = one_scale, b[k] = one_bias;
        } else {
            rg_raw<Vector> raw_a = {}, raw_b = {};
            fetch(i, raw_a, raw_b);
            take(raw_a, raw_b, a, b);
        }
    }
    // The same in two steps, where one set is like another.
    RG_MEMBER void fetch(rg_u64 i, rg_raw<Vector>& a, rg_raw<Vector>& b) const {
        if (scale_step) a = ((rg_raw<Vector> const*)scale)[i];
        if (bias && bias_step) b = ((rg_raw<Vector> const*)bias)[i];
    }
    RG_MEMBER void take(rg_raw<Vector> const& raw_a, rg_raw<Vector> const& raw_b, W (&a)[kVector], W (&b)[kVector]) const {
        Vector one = rg_taken<Vector>(raw_a), other = rg_taken<Vector>(raw_b);
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
            a[k] = rg_widen(scale_step ? one.v[k] : scale[0]);
            b[k] = !bias ? W(0) : rg_widen(bias_step ? other.v[k] : bias[0]);
        }
    }
};
template <class T, int kVector, class W>
RG_FN void rg_normalize_store(rg_normalize_set<T, kVector> const& set, rg_u64 i, W const (&v)[kVector], W mean, W factor,
                              W const (&scale)[kVector], W const (&bias)[kVector]) {
    rg_vec<T, kVector> out;
    if (set.sum) {
#pragma unroll
        for (int k = 0; k < kVector; ++k) out.v[k] = rg_narrow<T>(v[k]);
        set.sum[i] = out;
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) out.v[k] = rg_narrow<T>((v[k] - mean) * factor * scale[k] + bias[k]);
    set.y[i] = out;
}
template <class T, int kVector, bool channels, class W>
RG_FN void rg_normalize_store(rg_normalize_set<T, kVector> const& set, rg_affine<T, kVector, channels> const& affine,
                              rg_u64 i, W const (&v)[kVector], W mean, W factor) {
    W scale[kVector], bias[kVector];
    affine.get(i, scale, bias);
    rg_normalize_store(set, i, v, mean, factor, scale, bias);
}

// The moments of what a thread has in registers, `count` elements of each thread that has any, over `kLanes` threads:
// first the mean, then the distances from it.
template <bool rms, int kLanes, int kItems, int kVector, class W>
RG_FN rg_moments<rms, W> rg_moments_of(W const (&v)[kItems][kVector], unsigned first, unsigned vectors) {
    rg_moments<rms, W> m = {(W)vectors * W(kVector), W(0), W(0)};
    if constexpr (!rms) {
        rg_sum<W> sum = {W(0)};
#pragma unroll
        for (int i = 0; i < kItems; ++i)
            if (first + i * kLanes < vectors)
#pragma unroll
                for (int k = 0; k < kVector; ++k) sum.v += v[i][k];
        m.mean = rg_combined<kLanes>(sum).v / m.count;
    }
    rg_sum<W> square = {W(0)};
#pragma unroll
    for (int i = 0; i < kItems; ++i)
        if (first + i * kLanes < vectors)
#pragma unroll
            for (int k = 0; k < kVector; ++k) square.v += (v[i][k] - m.mean) * (v[i][k] - m.mean);
    m.square = rg_combined<kLanes>(square).v;
    return m;
}

// Sets that fit in registers: one read. Scale and bias are under way at the same time if there is room for them.
template <class T, bool rms, bool channels, int kVector, int kItems, int kLanes>
RG_FN void rg_normalize_registers(rg_u64 const* w) {
    typedef rg_wide<T> W;
    typedef rg_raw<rg_vec<T, kVector>> Raw;
    constexpr bool early = !channels && kItems <= 2;
    constexpr int kEarly = early ? kItems : 1;
    rg_u64 number = (rg_u64)blockIdx.x * (256 / kLanes) + threadIdx.x / kLanes;
    unsigned vectors = number < w[7] ? (unsigned)w[8] : 0, first = threadIdx.x % kLanes;
    rg_normalize_set<T, kVector> set(w, number);
    rg_affine<T, kVector, channels> affine(w, number);
    W v[kItems][kVector];
    Raw in[kItems] = {}, more[kItems] = {}, scale[kEarly] = {}, bias[kEarly] = {};
#pragma unroll
    for (int i = 0; i < kItems; ++i)
        if (first + i * kLanes < vectors) set.fetch(first + i * kLanes, in[i], more[i]);
    if constexpr (early) {
#pragma unroll
        for (int i = 0; i < kItems; ++i)
            if (first + i * kLanes < vectors) affine.fetch(first + i * kLanes, scale[i], bias[i]);
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i)
        if (first + i * kLanes < vectors) set.take(in[i], more[i], v[i]);
    rg_moments<rms, W> m = rg_moments_of<rms, kLanes>(v, first, vectors);
    W factor = m.factor((W)rg_f32((unsigned)w[9]));
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (first + i * kLanes >= vectors) continue;
        if constexpr (early) {
            W a[kVector], b[kVector];
            affine.take(scale[i], bias[i], a, b);
            rg_normalize_store(set, first + i * kLanes, v[i], m.mean, factor, a, b);
        } else {
            rg_normalize_store(set, affine, first + i * kLanes, v[i], m.mean, factor);
        }
    }
}

// Sets that blocks share, `kItems` vectors of each thread: first the moments of each block's part, then a launch that
// combines them and normalises.
template <class T, bool rms, int kVector, int kItems> RG_FN void rg_normalize_parts(rg_u64 const* w) {
    typedef rg_wide<T> W;
    rg_u64 number = blockIdx.x / w[15], part = blockIdx.x % w[15], begin = part * 256 * kItems;
    rg_normalize_set<T, kVector> set(w, number);
    unsigned vectors = (unsigned)(w[8] - begin < 256 * kItems ? w[8] - begin : 256 * kItems);
    W v[kItems][kVector];
#pragma unroll
    for (int i = 0; i < kItems; ++i)
        if (threadIdx.x + i * 256 < vectors) set.load(begin + threadIdx.x + i * 256, v[i]);
    rg_moments<rms, W> m = rg_moments_of<rms, 256>(v, threadIdx.x, vectors);
    if (threadIdx.x == 0) ((rg_moments<rms, W>*)w[6])[blockIdx.x] = m;
}
template <class T, bool rms, bool channels, int kVector, int kItems> RG_FN void rg_normalize_apply(rg_u64 const* w) {
    typedef rg_wide<T> W;
    rg_u64 number = blockIdx.x / w[15], begin = blockIdx.x % w[15] * 256 * kItems;
    rg_moments<rms, W> const* parts = (rg_moments<rms, W> const*)w[6] + number * w[15];
    rg_moments<rms, W> m = rg_moments<rms, W>::none();
    for (rg_u64 i = threadIdx.x; i < w[15]; i += 256) m.merge(parts[i]);
    m = rg_combined<256>(m);
    rg_normalize_set<T, kVector> set(w, number);
    rg_affine<T, kVector, channels> affine(w, number);
    W factor = m.factor((W)rg_f32((unsigned)w[9]));
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        rg_u64 at = begin + threadIdx.x + i * 256;
        if (at >= w[8]) continue;
        W v[kVector];
        set.load(at, v);
        rg_normalize_store(set, affine, at, v, m.mean, factor);
    }
}
)cuda";

}  // namespace refactor::kernel::cuda
