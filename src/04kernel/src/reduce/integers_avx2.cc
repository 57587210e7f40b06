#include <immintrin.h>
//
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

/// `vectors` vectors of columns from `column` on, the last of which ends with the last column at the latest.
template <class T, Fold kFold, int vectors>
void down(FoldColumns<T> const& o, int64_t column) {
    using L = Lanes<T>;
    typename L::Vector folded[vectors];
    int64_t const last =
        column + vectors * L::kCount <= o.columns ? column + (vectors - 1) * L::kCount : o.columns - L::kCount;
    auto const *x = o.x + column, *x_last = o.x + last;
    auto load = [&](int v) __attribute__((always_inline)) {
        return L::load(v + 1 == vectors ? x_last : x + v * L::kCount);
    };
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) folded[v] = load(v);
    for (int64_t k = 1; k < o.size; ++k) {
        x += o.stride, x_last += o.stride;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) folded[v] = joined<kFold>(folded[v], load(v));
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) L::store(o.y + (v + 1 == vectors ? last : column + v * L::kCount), folded[v]);
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
void columns(FoldColumns<T> const& o);

/// Rows of a few columns that lie behind each other: several of them are one of as many times the columns, of which
/// there are `kMost` at most.
template <class T, Fold kFold, int64_t kMost>
void folded_columns(FoldColumns<T> const& o) {
    T parts[kMost];
    int64_t const folds = kMost / o.columns, wide = folds * o.columns, rows = o.size / folds;
    columns<T, kFold>({o.x, parts, rows, wide, wide, o.fold});
    for (int64_t i = 0; i < o.columns; ++i) {
        T folded = parts[i];
        for (int64_t k = i + o.columns; k < wide; k += o.columns) folded = joined<kFold>(folded, parts[k]);
        for (int64_t k = rows * folds; k < o.size; ++k) folded = joined<kFold>(folded, o.x[k * o.columns + i]);
        o.y[i] = folded;
    }
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
    if (o.columns < kLanes && o.stride == o.columns && o.size * o.columns >= 2 * kVectors * kLanes)
        return folded_columns<T, kFold, kVectors * kLanes>(o);
    if (o.columns >= kLanes) {
        for (; o.columns - i > (kVectors - 1) * kLanes; i += kVectors * kLanes) down<T, kFold, kVectors>(o, i);
        if (o.columns - i > 2 * kLanes)
            down<T, kFold, 3>(o, i);
        else if (o.columns - i > kLanes)
            down<T, kFold, 2>(o, i);
        else if (o.columns > i)
            down<T, kFold, 1>(o, i);
        return;
    }
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

constexpr int64_t kFour = 4;

__m256i wide_of(int32_t const* x) {
    return _mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<__m128i const*>(x)));
}
void store(int64_t* y, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), v); }

template <int vectors>
void widen_down(WidenColumns const& o, int64_t column) {
    __m256i sums[vectors];
    auto const* x = o.x + column;
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[v] = _mm256_setzero_si256();
    for (int64_t k = 0; k < o.size; ++k, x += o.stride)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) sums[v] = _mm256_add_epi64(sums[v], wide_of(x + v * kFour));
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store(o.y + column + v * kFour, sums[v]);
}
int64_t widen_along(int32_t const* x, int64_t size) {
    __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    int64_t i = 0, lanes[kFour];
    for (; i + 2 * kFour <= size; i += 2 * kFour)
        for (int v = 0; v < 2; ++v) sums[v] = _mm256_add_epi64(sums[v], wide_of(x + i + v * kFour));
    store(lanes, _mm256_add_epi64(sums[0], sums[1]));
    int64_t sum = lanes[0] + lanes[1] + lanes[2] + lanes[3];
    for (; i < size; ++i) sum += x[i];
    return sum;
}

/// Numbers of less than this are doubles as they are, and their quotients are cut to what integers give: one that is no
/// integer is farther from the next than doubles of this size are apart.
constexpr int64_t kExact = int64_t{1} << 51;
/// Added to such an integer as bits, or as a double, it becomes the other.
constexpr double kTurn = 0x1.8p52;

__m256d doubles_of(__m256i x) {
    __m256d turn = _mm256_set1_pd(kTurn);
    return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_add_epi64(x, _mm256_castpd_si256(turn))), turn);
}
void put(int32_t* y, __m256d quotients) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm256_cvttpd_epi32(quotients));
}
void put(int64_t* y, __m256d quotients) {
    __m256d turn = _mm256_set1_pd(kTurn);
    __m256d whole = _mm256_round_pd(quotients, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    store(y, _mm256_sub_epi64(_mm256_castpd_si256(_mm256_add_pd(whole, turn)), _mm256_castpd_si256(turn)));
}

template <class T>
void divide_sums(int64_t const* sums, int64_t count, int64_t divisor, T* y) {
    __m256d const by = _mm256_set1_pd(static_cast<double>(divisor));
    __m256i const half = _mm256_set1_epi64x(kExact), beyond = _mm256_set1_epi64x(~(2 * kExact - 1));
    int64_t i = 0;
    for (; i + kFour <= count && divisor < kExact; i += kFour) {
        __m256i x = _mm256_loadu_si256(reinterpret_cast<__m256i const*>(sums + i));
        if (!_mm256_testz_si256(_mm256_add_epi64(x, half), beyond)) {
            for (int k = 0; k < kFour; ++k) y[i + k] = static_cast<T>(sums[i + k] / divisor);
            continue;
        }
        put(y + i, _mm256_div_pd(doubles_of(x), by));
    }
    for (; i < count; ++i) y[i] = static_cast<T>(sums[i] / divisor);
}

}  // namespace

void widen_columns_avx2(WidenColumns const& o) {
    if (o.columns == 1 && o.stride == 1) {
        *o.y = widen_along(o.x, o.size);
        return;
    }
    constexpr int64_t kMost = 8 * kFour;
    int64_t i = 0;
    if (o.columns < kMost / 2 && o.stride == o.columns && o.size * o.columns >= 2 * kMost) {
        int64_t parts[kMost];
        int64_t const folds = kMost / o.columns, wide = folds * o.columns, rows = o.size / folds;
        widen_columns_avx2({o.x, parts, rows, wide, wide});
        for (; i < o.columns; ++i) {
            int64_t sum = 0;
            for (int64_t k = i; k < wide; k += o.columns) sum += parts[k];
            for (int64_t k = rows * folds; k < o.size; ++k) sum += o.x[k * o.columns + i];
            o.y[i] = sum;
        }
        return;
    }
    for (; i + kMost <= o.columns; i += kMost) widen_down<8>(o, i);
    for (; i + 2 * kFour <= o.columns; i += 2 * kFour) widen_down<2>(o, i);
    for (; i < o.columns; ++i) {
        int64_t sum = 0;
        for (int64_t k = 0; k < o.size; ++k) sum += o.x[k * o.stride + i];
        o.y[i] = sum;
    }
}
void divide_sums_avx2(int64_t const* sums, int64_t count, int64_t divisor, int32_t* y) {
    divide_sums(sums, count, divisor, y);
}
void divide_sums_avx2(int64_t const* sums, int64_t count, int64_t divisor, int64_t* y) {
    divide_sums(sums, count, divisor, y);
}
void fold_columns_avx2(FoldColumns<int8_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<uint8_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<int32_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<int64_t> const& o) { largest_or_smallest(o); }
void fold_columns_avx2(FoldColumns<uint32_t> const& o) { sum_or_product(o); }
void fold_columns_avx2(FoldColumns<uint64_t> const& o) { sum_or_product(o); }

}  // namespace refactor::kernel
