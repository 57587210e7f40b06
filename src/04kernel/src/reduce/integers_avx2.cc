#include "reduce/integers.h"

namespace refactor::kernel {
namespace {

template <class T>
struct Lanes {
    typedef T Vector __attribute__((vector_size(32)));
    typedef T Unaligned __attribute__((vector_size(32), aligned(1), may_alias));
    static constexpr int64_t kCount = 32 / sizeof(T);
    static Vector load(T const* p) { return *reinterpret_cast<Unaligned const*>(p); }
    static void store(T* p, Vector v) { *reinterpret_cast<Unaligned*>(p) = v; }
};

template <Fold kFold, class V>
[[gnu::always_inline]] inline V joined(V a, V b) {
    if constexpr (kFold == Fold::Max)
        return a > b ? a : b;
    else if constexpr (kFold == Fold::Min)
        return a < b ? a : b;
    else if constexpr (kFold == Fold::Sum)
        return a + b;
    else
        return a * b;
}

/// `vectors` vectors of columns from `column` on.
template <class T, Fold kFold, int vectors>
void down(FoldColumns<T> const& o, int64_t column) {
    using L = Lanes<T>;
    typename L::Vector folded[vectors];
    auto const* x = o.x + column;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) folded[v] = L::load(x + v * L::kCount);
    for (int64_t k = 1; k < o.size; ++k) {
        x += o.stride;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) folded[v] = joined<kFold>(folded[v], L::load(x + v * L::kCount));
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) L::store(o.y + column + v * L::kCount, folded[v]);
}

/// Neighbours: those of every lane, then these.
template <class T, Fold kFold>
T along(T const* x, int64_t size) {
    using L = Lanes<T>;
    constexpr int kVectors = 4;
    T folded = x[0];
    int64_t i = 1;
    if (size >= kVectors * L::kCount) {
        typename L::Vector all[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) all[v] = L::load(x + v * L::kCount);
        for (i = kVectors * L::kCount; i + kVectors * L::kCount <= size; i += kVectors * L::kCount)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) all[v] = joined<kFold>(all[v], L::load(x + i + v * L::kCount));
        auto lanes = joined<kFold>(joined<kFold>(all[0], all[1]), joined<kFold>(all[2], all[3]));
        folded = lanes[0];
        for (int64_t k = 1; k < L::kCount; ++k) folded = joined<kFold>(folded, static_cast<T>(lanes[k]));
    }
    for (; i < size; ++i) folded = joined<kFold>(folded, x[i]);
    return folded;
}

template <class T, Fold kFold>
void columns(FoldColumns<T> const& o) {
    if (o.columns == 1 && o.stride == 1) {
        *o.y = along<T, kFold>(o.x, o.size);
        return;
    }
    constexpr int kVectors = 4;
    constexpr int64_t kLanes = Lanes<T>::kCount;
    int64_t i = 0;
    for (; i + kVectors * kLanes <= o.columns; i += kVectors * kLanes) down<T, kFold, kVectors>(o, i);
    for (; i + kLanes <= o.columns; i += kLanes) down<T, kFold, 1>(o, i);
    for (; i < o.columns; ++i) {
        T folded = o.x[i];
        for (int64_t k = 1; k < o.size; ++k) folded = joined<kFold>(folded, o.x[k * o.stride + i]);
        o.y[i] = folded;
    }
}
template <class T>
void largest_or_smallest(FoldColumns<T> const& o) {
    o.fold == Fold::Max ? columns<T, Fold::Max>(o) : columns<T, Fold::Min>(o);
}
template <class T>
void sum_or_product(FoldColumns<T> const& o) {
    o.fold == Fold::Sum ? columns<T, Fold::Sum>(o) : columns<T, Fold::Product>(o);
}

}  // namespace

void fold_columns_avx2(FoldColumns<int8_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<uint8_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<int32_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<int64_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<uint32_t> const& o) { sum_or_product(o); }
void fold_columns_avx2(FoldColumns<uint64_t> const& o) { sum_or_product(o); }

}  // namespace refactor::kernel
