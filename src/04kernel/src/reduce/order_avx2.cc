#include "reduce/order.h"

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

template <bool max, class V>
[[gnu::always_inline]] inline V better(V a, V b) {
    return max ? (a > b ? a : b) : (a < b ? a : b);
}

/// `vectors` vectors of columns from `column` on.
template <class T, bool max, int vectors>
void down(OrderColumns<T> const& o, int64_t column) {
    using L = Lanes<T>;
    typename L::Vector best[vectors];
    auto const* x = o.x + column;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) best[v] = L::load(x + v * L::kCount);
    for (int64_t k = 1; k < o.size; ++k) {
        x += o.stride;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) best[v] = better<max>(best[v], L::load(x + v * L::kCount));
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) L::store(o.y + column + v * L::kCount, best[v]);
}

/// Neighbours: the best of every lane, then of those.
template <class T, bool max>
T along(T const* x, int64_t size) {
    using L = Lanes<T>;
    constexpr int kVectors = 4;
    T best = x[0];
    int64_t i = 0;
    if (size >= kVectors * L::kCount) {
        typename L::Vector all[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) all[v] = L::load(x + v * L::kCount);
        for (i = kVectors * L::kCount; i + kVectors * L::kCount <= size; i += kVectors * L::kCount)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) all[v] = better<max>(all[v], L::load(x + i + v * L::kCount));
        auto joined = better<max>(better<max>(all[0], all[1]), better<max>(all[2], all[3]));
        for (int64_t k = 0; k < L::kCount; ++k) best = better<max>(best, static_cast<T>(joined[k]));
    }
    for (; i < size; ++i) best = better<max>(best, x[i]);
    return best;
}

template <class T, bool max>
void columns(OrderColumns<T> const& o) {
    if (o.columns == 1 && o.stride == 1) {
        *o.y = along<T, max>(o.x, o.size);
        return;
    }
    constexpr int kVectors = 4;
    constexpr int64_t kLanes = Lanes<T>::kCount;
    int64_t i = 0;
    for (; i + kVectors * kLanes <= o.columns; i += kVectors * kLanes) down<T, max, kVectors>(o, i);
    for (; i + kLanes <= o.columns; i += kLanes) down<T, max, 1>(o, i);
    for (; i < o.columns; ++i) {
        T best = o.x[i];
        for (int64_t k = 1; k < o.size; ++k) best = better<max>(best, o.x[k * o.stride + i]);
        o.y[i] = best;
    }
}
template <class T>
void order(OrderColumns<T> const& o) {
    o.max ? columns<T, true>(o) : columns<T, false>(o);
}

}  // namespace

void order_columns_avx2(OrderColumns<int8_t> const& o) { order(o); }
void order_columns_avx2(OrderColumns<uint8_t> const& o) { order(o); }
void order_columns_avx2(OrderColumns<int32_t> const& o) { order(o); }
void order_columns_avx2(OrderColumns<int64_t> const& o) { order(o); }

}  // namespace refactor::kernel
