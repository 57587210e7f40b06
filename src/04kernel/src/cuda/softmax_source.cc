#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kSoftmaxSource = R"cuda(
// What is stored for an element of a row whose largest element and sum are known: exactly what `normalized` gives.
template <bool log, bool nan_to_zero, class W> struct rg_softmax_row {
    W most, factor;
    bool zeros;
    RG_MEMBER rg_softmax_row(W most_, W sum) : most(most_) {
        bool finite = most - most == W(0);
        zeros = nan_to_zero && !(finite && sum == sum);
        factor = !finite ? rg_nan<W>() : log ? m_log(sum) : W(1) / sum;
    }
    RG_MEMBER W of_exponential(W e) const { return zeros ? W(0) : e * factor; }
    RG_MEMBER W of(W x) const {
        if constexpr (log) return zeros ? W(0) : x - most - factor;
        else return of_exponential(m_exp(x - most));
    }
};

// Rows that fit in registers: one read. Words: x, y; rows, vectors of a row.
template <class T, bool log, bool nan_to_zero, int kVector, int kItems, int kLanes>
RG_FN void rg_softmax_registers(rg_u64 const* w) {
    typedef rg_wide<T> W;
    typedef rg_vec<T, kVector> Vector;
    rg_u64 row = (rg_u64)blockIdx.x * (256 / kLanes) + threadIdx.x / kLanes;
    unsigned length = row < w[2] ? (unsigned)w[3] : 0, first = threadIdx.x % kLanes;
    Vector const* x = (Vector const*)w[0] + row * w[3];
    Vector* y = (Vector*)w[1] + row * w[3];
    W v[kItems][kVector];
    rg_largest<W> most = {-rg_infinity<W>()};
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (first + i * kLanes >= length) continue;
        Vector in = x[first + i * kLanes];
#pragma unroll
        for (int k = 0; k < kVector; ++k) most.add(v[i][k] = rg_widen(in.v[k]));
    }
    most = rg_combined<kLanes>(most);
    rg_sum<W> sum = {W(0)};
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (first + i * kLanes >= length) continue;
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
            W e = m_exp(v[i][k] - most.v);
            sum.v += e;
            if constexpr (!log) v[i][k] = e;
        }
    }
    sum = rg_combined<kLanes>(sum);
    rg_softmax_row<log, nan_to_zero, W> result(most.v, sum.v);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (first + i * kLanes >= length) continue;
        Vector out;
#pragma unroll
        for (int k = 0; k < kVector; ++k) {
            if constexpr (log) out.v[k] = rg_narrow<T>(result.of(v[i][k]));
            else out.v[k] = rg_narrow<T>(result.of_exponential(v[i][k]));
        }
        y[first + i * kLanes] = out;
    }
}

// Longer rows, each shared by some blocks: the sums of each block's part, then a launch that combines them. Where a block
// has a row for itself, one launch does both; the second read is mostly from the cache. Words: x, y, parts; rows, vectors
// of a row, blocks of a row.
template <class T, bool log, bool nan_to_zero, int kVector, bool add, bool store> RG_FN void rg_softmax_long(rg_u64 const* w) {
    typedef rg_wide<T> W;
    typedef rg_vec<T, kVector> Vector;
    rg_u64 shares = w[5], row = blockIdx.x / shares, length = w[4], chunk = (length + shares - 1) / shares;
    rg_u64 begin = blockIdx.x % shares * chunk, end = begin + chunk < length ? begin + chunk : length;
    Vector const* x = (Vector const*)w[0] + row * length;
    Vector* y = (Vector*)w[1] + row * length;
    rg_exp_sum<W>* parts = (rg_exp_sum<W>*)w[2] + row * shares;
    rg_exp_sum<W> total = rg_exp_sum<W>::none();
    if constexpr (add) {
#pragma unroll 4
        for (rg_u64 i = begin + threadIdx.x; i < end; i += 256) {
            Vector in = x[i];
#pragma unroll
            for (int k = 0; k < kVector; ++k) total.add(rg_widen(in.v[k]));
        }
    } else {
        for (rg_u64 i = threadIdx.x; i < shares; i += 256) total.merge(parts[i]);
    }
    total = rg_combined<256>(total);
    if constexpr (!store) {
        if (threadIdx.x == 0) parts[blockIdx.x % shares] = total;
    } else {
        rg_softmax_row<log, nan_to_zero, W> result(total.most, total.sum);
#pragma unroll 4
        for (rg_u64 i = begin + threadIdx.x; i < end; i += 256) {
            Vector in = x[i];
#pragma unroll
            for (int k = 0; k < kVector; ++k) in.v[k] = rg_narrow<T>(result.of(rg_widen(in.v[k])));
            y[i] = in;
        }
    }
}

// Softmax along an axis that is not the last: neighbouring threads take neighbouring columns. Words: x, y; columns in
// all, length of a column, step along it.
template <class T, bool log, bool nan_to_zero, int kColumns> RG_FN void rg_softmax_columns(rg_u64 const* w) {
    typedef rg_wide<T> W;
    __shared__ rg_exp_sum<W> totals[kColumns];
    rg_u64 column = (rg_u64)blockIdx.x * kColumns + threadIdx.x % kColumns, step = w[4];
    bool inside = column < w[2];
    rg_u64 base = column / step * step * w[3] + column % step;
    T const* x = (T const*)w[0] + base;
    T* y = (T*)w[1] + base;
    rg_exp_sum<W> total = rg_exp_sum<W>::none();
    if (inside)
        for (rg_u64 i = threadIdx.x / kColumns; i < w[3]; i += 256 / kColumns) total.add(rg_widen(x[i * step]));
    total = rg_stacked<kColumns>(total);
    if (threadIdx.x < kColumns) totals[threadIdx.x] = total;
    __syncthreads();
    total = totals[threadIdx.x % kColumns];
    rg_softmax_row<log, nan_to_zero, W> result(total.most, total.sum);
    if (inside)
        for (rg_u64 i = threadIdx.x / kColumns; i < w[3]; i += 256 / kColumns)
            y[i * step] = rg_narrow<T>(result.of(rg_widen(x[i * step])));
}
)cuda";

}  // namespace refactor::kernel::cuda
