#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kReduceSource = R"cuda(
enum rg_kind {
    rg_kind_sum, rg_kind_mean, rg_kind_max, rg_kind_min, rg_kind_prod,
    rg_kind_l1, rg_kind_l2, rg_kind_sum_square, rg_kind_log_sum
};
// Accumulators: `add` takes an element and its index in the reduced set.
template <int kind, class T> struct rg_reduction {
    typedef rg_wide<T> W;
    W v;
    static RG_MEMBER rg_reduction none() {
        if constexpr (kind == rg_kind_max) return {rg_lowest<T>()};
        else if constexpr (kind == rg_kind_min) return {rg_highest<T>()};
        else return {W(kind == rg_kind_prod ? 1 : 0)};
    }
    RG_MEMBER void take(W x) {
        if constexpr (kind == rg_kind_max) v = x > v || x != x ? x : v;
        else if constexpr (kind == rg_kind_min) v = x < v || x != x ? x : v;
        else if constexpr (kind == rg_kind_prod) v = rg_Mul(v, x);
        else v = rg_Add(v, x);
    }
    RG_MEMBER void add(W x, rg_i64) {
        if constexpr (kind == rg_kind_l1) take(rg_Abs(x));
        else if constexpr (kind == rg_kind_l2 || kind == rg_kind_sum_square) take(rg_Mul(x, x));
        else take(x);
    }
    RG_MEMBER void merge(rg_reduction o) { take(o.v); }
    RG_MEMBER rg_reduction exchanged(int step) const { return {rg_exchanged(v, step)}; }
    template <class Y> RG_MEMBER Y result(rg_i64 count) const {
        if constexpr (kind == rg_kind_mean) {
            if constexpr (rg_real<W>) return rg_narrow<Y>(v / W(count));
            else return rg_narrow<Y>(count ? v / W(count) : W(0));
        } else if constexpr (kind == rg_kind_l2 || kind == rg_kind_log_sum) {
            typedef typename rg_choose<rg_real<W>, W, double>::type R;
            R root;
            if constexpr (kind == rg_kind_l2) root = m_sqrt((R)v);
            else root = m_log((R)v);
            return rg_narrow<Y>(rg_Cast<W>(root));
        } else {
            return rg_narrow<Y>(v);
        }
    }
};
template <class T> struct rg_log_sum_exp {
    typedef typename rg_choose<rg_real<rg_wide<T>>, rg_wide<T>, double>::type W;
    rg_exp_sum<W> v;
    static RG_MEMBER rg_log_sum_exp none() { return {rg_exp_sum<W>::none()}; }
    RG_MEMBER void add(rg_wide<T> x, rg_i64) { v.add((W)x); }
    RG_MEMBER void merge(rg_log_sum_exp o) { v.merge(o.v); }
    RG_MEMBER rg_log_sum_exp exchanged(int step) const { return {v.exchanged(step)}; }
    template <class Y> RG_MEMBER Y result(rg_i64) const {
        bool finite = v.most - v.most == W(0);
        return rg_narrow<Y>(rg_Cast<rg_wide<T>>(finite ? v.most + m_log(v.sum) : v.sum != v.sum ? v.sum : v.most));
    }
};
// The place of the largest (smallest) element, of the first NaN if there is one; of equal ones the first (last).
template <bool smallest, bool last, class T> struct rg_place {
    typedef rg_wide<T> W;
    W v;
    rg_i64 at;
    static RG_MEMBER rg_place none() { return {W(0), -1}; }
    RG_MEMBER void add(W x, rg_i64 index) { merge({x, index}); }
    RG_MEMBER void merge(rg_place o) {
        if (o.at < 0) return;
        bool nan = v != v, other_nan = o.v != o.v;
        bool same = nan && other_nan ? true : v == o.v;
        bool better = other_nan ? !nan : !nan && (smallest ? o.v < v : o.v > v);
        if (at < 0 || better || (same && (last ? o.at > at : o.at < at))) *this = o;
    }
    RG_MEMBER rg_place exchanged(int step) const { return {rg_exchanged(v, step), rg_exchanged(at, step)}; }
    template <class Y> RG_MEMBER Y result(rg_i64) const { return (Y)at; }
};

// Words: x, y, parts; outputs, length of the reduced set (both in vectors where they run along the vectors), blocks
// that share an output, elements of a reduced set; sizes and steps of the kept axes, then of the reduced ones.
template <class A, class T, class Y, class Index, int kKept, int kReduced, int kVector, int kLanes>
RG_FN void rg_reduce_rows(rg_u64 const* w) {
    rg_vec<T, kVector> const* x = (rg_vec<T, kVector> const*)w[0];
    Index outputs = (Index)w[3], length = (Index)w[4], shares = (Index)w[5];
    Index item = (Index)blockIdx.x * (256 / kLanes) + threadIdx.x / kLanes;
    Index output = item % outputs, share = item / outputs;
    Index chunk = (length + shares - 1) / shares, begin = share * chunk;
    Index end = share >= shares || begin > length ? 0 : begin + chunk < length ? begin + chunk : length;
    x += rg_offset<kKept>(output, w + 7);
    A a = A::none();
#pragma unroll 4
    for (Index i = begin + threadIdx.x % kLanes; i < end; i += kLanes) {
        rg_vec<T, kVector> v = x[rg_offset<kReduced>(i, w + 7 + 2 * kKept)];
#pragma unroll
        for (int k = 0; k < kVector; ++k) a.add(rg_widen(v.v[k]), (rg_i64)i * kVector + k);
    }
    a = rg_combined<kLanes>(a);
    if (threadIdx.x % kLanes != 0 || share >= shares) return;
    if (shares == 1) ((Y*)w[1])[output] = a.template result<Y>((rg_i64)w[6]);
    else ((A*)w[2])[item] = a;
}

// The innermost axis is kept: a vector of outputs for each of `kColumns` threads, which share the reduced set with those
// of the same column.
template <class A, class T, class Y, class Index, int kKept, int kReduced, int kVector, int kColumns>
RG_FN void rg_reduce_columns(rg_u64 const* w) {
    rg_vec<T, kVector> const* x = (rg_vec<T, kVector> const*)w[0];
    Index outputs = (Index)w[3], length = (Index)w[4], shares = (Index)w[5];
    Index blocks = (outputs + kColumns - 1) / kColumns, share = blockIdx.x / blocks;
    Index output = (blockIdx.x - share * blocks) * kColumns + threadIdx.x % kColumns;
    Index chunk = (length + shares - 1) / shares, begin = share * chunk;
    Index end = output >= outputs || begin > length ? 0 : begin + chunk < length ? begin + chunk : length;
    if (output < outputs) x += rg_offset<kKept>(output, w + 7);
    A a[kVector];
#pragma unroll
    for (int k = 0; k < kVector; ++k) a[k] = A::none();
#pragma unroll 4
    for (Index i = begin + threadIdx.x / kColumns; i < end; i += 256 / kColumns) {
        rg_vec<T, kVector> v = x[rg_offset<kReduced>(i, w + 7 + 2 * kKept)];
#pragma unroll
        for (int k = 0; k < kVector; ++k) a[k].add(rg_widen(v.v[k]), (rg_i64)i);
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) a[k] = rg_stacked<kColumns>(a[k]);
    if (threadIdx.x >= kColumns || output >= outputs) return;
    for (int k = 0; k < kVector; ++k)
        if (shares == 1) ((Y*)w[1])[output * kVector + k] = a[k].template result<Y>((rg_i64)w[6]);
        else ((A*)w[2])[(share * outputs + output) * kVector + k] = a[k];
}

// The second launch where blocks shared outputs, a warp for each. Words: parts, y; outputs, parts of each, elements.
template <class A, class Y> RG_FN void rg_reduce_parts(rg_u64 const* w) {
    A const* parts = (A const*)w[0];
    rg_u64 outputs = w[2], output = (rg_u64)blockIdx.x * 8 + threadIdx.x / 32;
    A a = A::none();
    if (output < outputs)
        for (rg_u64 i = threadIdx.x % 32; i < w[3]; i += 32) a.merge(parts[i * outputs + output]);
    a = rg_combined<32>(a);
    if (threadIdx.x % 32 == 0 && output < outputs) ((Y*)w[1])[output] = a.template result<Y>((rg_i64)w[4]);
}
)cuda";

}  // namespace refactor::kernel::cuda
