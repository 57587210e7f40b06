#include "cuda/rows_source.h"

namespace refactor::kernel::cuda {

char const* const kRowsPrelude = R"cuda(
template <int N> struct rg_words { rg_u64 w[N]; };
template <class A, class B> struct rg_is_same { static constexpr bool value = false; };
template <class A> struct rg_is_same<A, A> { static constexpr bool value = true; };
template <bool first, class A, class B> struct rg_choose { typedef A type; };
template <class A, class B> struct rg_choose<false, A, B> { typedef B type; };

// What elements are computed in: f32 for floats below f64, 64 bits for integers.
template <class T> struct rg_wide_of { typedef typename rg_choose<rg_signed<T>, rg_i64, rg_u64>::type type; };
template <> struct rg_wide_of<float> { typedef float type; };
template <> struct rg_wide_of<double> { typedef double type; };
template <> struct rg_wide_of<rg_f16> { typedef float type; };
template <> struct rg_wide_of<rg_bf16> { typedef float type; };
template <class T> using rg_wide = typename rg_wide_of<T>::type;
template <class T> RG_FN rg_wide<T> rg_widen(T x) {
    if constexpr (rg_is_same<T, rg_f16>::value) return rg_from_f16(x.bits);
    else if constexpr (rg_is_same<T, rg_bf16>::value) return rg_from_bf16(x.bits);
    else return (rg_wide<T>)x;
}
template <class T, class W> RG_FN T rg_narrow(W x) {
    if constexpr (rg_is_same<T, rg_f16>::value) return T{rg_to_f16((float)x)};
    else if constexpr (rg_is_same<T, rg_bf16>::value) return T{rg_to_bf16((float)x)};
    else return (T)x;
}
template <class W> RG_FN W rg_infinity() { return (W)rg_f32(0x7f800000u); }
template <class W> RG_FN W rg_nan() { return (W)rg_f32(0x7fc00000u); }

// What every element of the type is at least, and at most.
template <class T> RG_FN rg_wide<T> rg_lowest() {
    if constexpr (rg_real<rg_wide<T>>) return -rg_infinity<rg_wide<T>>();
    else if constexpr (rg_signed<T>) return -(rg_i64)(((rg_u64)1 << (sizeof(T) * 8 - 1)) - 1) - 1;
    else return 0;
}
template <class T> RG_FN rg_wide<T> rg_highest() {
    if constexpr (rg_real<rg_wide<T>>) return rg_infinity<rg_wide<T>>();
    else return (rg_wide<T>)(~(rg_u64)0 >> (64 - sizeof(T) * 8 + (rg_signed<T> ? 1 : 0)));
}

// Offset of item `i` of a row-major grid, given the sizes of its axes and then their steps.
template <int kRank, class Index> RG_FN Index rg_offset(Index i, rg_u64 const* axes) {
    if constexpr (kRank == 0) {
        return 0;
    } else {
        Index offset = 0;
#pragma unroll
        for (int k = kRank - 1; k > 0; --k) {
            Index size = (Index)axes[k], outer = i / size;
            offset += (i - outer * size) * (Index)axes[kRank + k];
            i = outer;
        }
        return offset + i * (Index)axes[kRank];
    }
}

template <class T> RG_FN T rg_exchanged(T x, int step) { return __shfl_xor_sync(0xffffffffu, x, step); }

// Merges the accumulators of `kLanes` neighbouring threads: a part of a warp, or the block. Every thread of the block
// calls it, every one gets the result.
template <int kLanes, class A> RG_FN A rg_combined(A a) {
#pragma unroll
    for (int step = (kLanes < 32 ? kLanes : 32) / 2; step > 0; step /= 2) a.merge(a.exchanged(step));
    if constexpr (kLanes > 32) {
        __shared__ A parts[kLanes / 32];
        __syncthreads();
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = a;
        __syncthreads();
        a = parts[0];
        for (int i = 1; i < kLanes / 32; ++i) a.merge(parts[i]);
    }
    return a;
}
// Merges the accumulators of the threads of a block that are `kColumns` apart; the first `kColumns` get the result.
template <int kColumns, class A> RG_FN A rg_stacked(A a) {
    if constexpr (kColumns < 256) {
        __shared__ A parts[256];
        __syncthreads();
        parts[threadIdx.x] = a;
        __syncthreads();
        if (threadIdx.x < kColumns)
            for (int i = kColumns; i < 256; i += kColumns) a.merge(parts[threadIdx.x + i]);
    }
    return a;
}

template <class W> struct rg_sum {
    W v;
    RG_MEMBER void merge(rg_sum o) { v += o.v; }
    RG_MEMBER rg_sum exchanged(int step) const { return {rg_exchanged(v, step)}; }
};
template <class W> struct rg_largest {
    W v;
    RG_MEMBER void add(W x) { v = x > v ? x : v; }
    RG_MEMBER void merge(rg_largest o) { add(o.v); }
    RG_MEMBER rg_largest exchanged(int step) const { return {rg_exchanged(v, step)}; }
};
// The largest x (NaN counts in the sum only) and the sum of exp(x - largest).
template <class W> struct rg_exp_sum {
    W most, sum;
    static RG_MEMBER rg_exp_sum none() { return {-rg_infinity<W>(), W(0)}; }
    RG_MEMBER void add(W x) {
        if (x > most) {
            sum = sum * m_exp(most - x) + W(1);
            most = x;
        } else {
            sum += x == most ? W(1) : m_exp(x - most);
        }
    }
    RG_MEMBER void merge(rg_exp_sum o) {
        W larger = o.most > most ? o.most : most;
        sum = (most == larger ? sum : sum * m_exp(most - larger)) +
              (o.most == larger ? o.sum : o.sum * m_exp(o.most - larger));
        most = larger;
    }
    RG_MEMBER rg_exp_sum exchanged(int step) const { return {rg_exchanged(most, step), rg_exchanged(sum, step)}; }
};
)cuda";

std::string instance_text(std::string const& name, size_t words, std::string const& call, int cluster) {
    auto blocks = cluster > 1 ? "RG_CLUSTER(" + std::to_string(cluster) + ") " : std::string();
    auto wait = cluster > 1 ? "" : "RG_WAIT(); ";
    return "RG_GLOBAL " + blocks + name + "(rg_words<" + std::to_string(words) + "> a) { " + wait + call + "(a.w); }\n";
}

int vector_width(DataType type, std::span<int64_t const> steps) {
    auto width = static_cast<int>(16 / std::max<int64_t>(1, bits_of(type) / 8));
    for (; width > 1; width /= 2) {
        bool divides = true;
        for (auto step : steps) divides = divides && step % width == 0;
        if (divides) break;
    }
    return width;
}

}  // namespace refactor::kernel::cuda
