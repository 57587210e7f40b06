#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h`, or those for f64, first.
#include "reduce/rows_parts_impl.h"

namespace refactor::kernel {
namespace {

/// Largest element that is not NaN.
Element largest(Element const* x, int64_t size) {
    Vec acc[kLanes];
#pragma GCC unroll 4
    for (int v = 0; v < kLanes; ++v) acc[v] = Vec::set(-kInf);
    int64_t i = 0;
    for (; i + kLanes * kWidth <= size; i += kLanes * kWidth)
#pragma GCC unroll 4
        for (int v = 0; v < kLanes; ++v) acc[v] = max(Vec::load(x + i + v * kWidth), acc[v]);
    for (; i < size; i += kWidth) {
        int left = left_of(size - i);
        acc[0] = max(select(first_lanes(left), load_part(x + i, left), Vec::set(-kInf)), acc[0]);
    }
    return max_of(max(max(acc[0], acc[1]), max(acc[2], acc[3])));
}

/// Elements of a line of the caches.
constexpr int64_t kLine = 64 / int64_t{sizeof(Element)};

/// Stores exponentials of the differences from `top`, unless `log`, and returns their sum. What is read and
/// stored `ahead` elements further is asked for.
Element exponentials(Element const* x, Element* y, int64_t size, Element top, bool log, int64_t ahead) {
    Vec shift = Vec::set(top), sums[2] = {Vec::zero(), Vec::zero()};
    int64_t i = 0;
    for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
        // Lines of x before those of y: by turns they gain nothing where both come from memory (Zen 5).
#pragma GCC unroll 2
        for (int64_t at = i; at < i + 2 * kWidth; at += kLine) __builtin_prefetch(x + at + ahead, 0, 2);
#pragma GCC unroll 2
        for (int64_t at = i; at < i + 2 * kWidth; at += kLine) __builtin_prefetch(y + at + ahead, 1, 2);
        Vec a = exp_of_negative(Vec::load(x + i) - shift), b = exp_of_negative(Vec::load(x + i + kWidth) - shift);
        sums[0] = sums[0] + a, sums[1] = sums[1] + b;
        if (!log) a.store(y + i), b.store(y + i + kWidth);
    }
    for (; i < size; i += kWidth) {
        int left = left_of(size - i);
        Vec a = exp_of_negative(load_part(x + i, left) - shift);
        sums[0] = sums[0] + select(first_lanes(left), a, Vec::zero());
        if (!log) store_part(a, y + i, left);
    }
    return sum(sums[0] + sums[1]);
}

void fill_zero(Element* y, int64_t size) {
    for (int64_t i = 0; i < size; i += kWidth) store_part(Vec::zero(), y + i, left_of(size - i));
}

/// Makes softmax of exponentials in y, whose sum has the reciprocal `factor`.
void normalise(Element* y, int64_t size, Element factor) {
    Vec scale = Vec::set(factor);
    int64_t i = 0;
    for (; i + kWidth <= size; i += kWidth) (Vec::load(y + i) * scale).store(y + i);
    if (i < size) store_part(load_part(y + i, left_of(size - i)) * scale, y + i, left_of(size - i));
}

/// Makes log-softmax of x; `log_sum`: of the exponentials' sum.
void normalise_log(Element const* x, Element* y, int64_t size, Element top, Element log_sum) {
    Vec shift = Vec::set(top), less = Vec::set(log_sum);
    int64_t i = 0;
    for (; i + kWidth <= size; i += kWidth) (Vec::load(x + i) - shift - less).store(y + i);
    if (i < size) store_part(load_part(x + i, left_of(size - i)) - shift - less, y + i, left_of(size - i));
}

/// Longest rows that are turned; a vector holds the elements of longer ones as well.
constexpr int64_t kLongestTurned = 4;
void softmax_turned(Element const* x, Element* y, int64_t rows, int64_t size, bool log, bool nan_to_zero);

/// Longest rows whose exponentials stay in registers.
constexpr int kShortVectors = 8;

template <int vectors>
void softmax_short(Element const* x, Element* y, int64_t rows, int64_t size, bool nan_to_zero) {
    int tail = static_cast<int>(size - (vectors - 1) * kWidth);
    Mask const there = first_lanes(tail);
    for (int64_t r = 0; r < rows; ++r, x += size, y += size) {
        Vec e[vectors], most = Vec::set(-kInf), total = Vec::zero();
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            e[v] = v + 1 == vectors ? select(there, load_part(x + v * kWidth, tail), Vec::set(-kInf))
                                    : Vec::load(x + v * kWidth);
            most = max(e[v], most);
        }
        Element const top = max_of(most);
        Vec shift = Vec::set(top);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            e[v] = exp_of_negative(e[v] - shift);
            total = total + (v + 1 == vectors ? select(there, e[v], Vec::zero()) : e[v]);
        }
        Element const all = sum(total);
        bool none = nan_to_zero && (top == -kInf || all != all);
        Vec factor = Vec::set(1 / all);
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) {
            Vec value = none ? Vec::zero() : e[v] * factor;
            v + 1 == vectors ? store_part(value, y + v * kWidth, tail) : value.store(y + v * kWidth);
        }
    }
}

template <int vectors = 1>
void softmax_short(Element const* x, Element* y, int64_t rows, int64_t size, bool nan_to_zero, int64_t wanted) {
    if (vectors == wanted) return softmax_short<vectors>(x, y, rows, size, nan_to_zero);
    if constexpr (vectors < kShortVectors) softmax_short<vectors + 1>(x, y, rows, size, nan_to_zero, wanted);
}

/// Some rows together, as long as they stay in L1: the steps that bring a row down to one number wait for each other,
/// those of the next row do not.
void softmax(Element const* x, Element* y, int64_t rows, int64_t size, bool is_log, bool nan_to_zero) {
    constexpr int64_t kTogether = 4096;  // elements
    if (size <= kLongestTurned && rows >= kWidth) return softmax_turned(x, y, rows, size, is_log, nan_to_zero);
    if (!is_log && size > 0 && size <= kShortVectors * kWidth)
        return softmax_short(x, y, rows, size, nan_to_zero, (size + kWidth - 1) / kWidth);
    int64_t most = size > kTogether ? 1 : kTogether / (size > 0 ? size : 1);
    if (most > kWidth) most = kWidth;
    for (int64_t first = 0; first < rows;) {
        int64_t count = rows - first < most ? rows - first : most;
        alignas(64) Element top[kWidth], all[kWidth] = {}, factors[kWidth];
        for (int64_t r = 0; r < count; ++r) top[r] = largest(x + r * size, size);
        for (int64_t r = 0; r < count; ++r)
            all[r] = exponentials(x + r * size, y + r * size, size, top[r], is_log, count * size);
        (is_log ? log(Vec::load(all)) : Vec::set(1) / Vec::load(all)).store(factors);
        for (int64_t r = 0; r < count; ++r) {
            if (nan_to_zero && (top[r] == -kInf || all[r] != all[r]))
                fill_zero(y + r * size, size);
            else if (is_log)
                normalise_log(x + r * size, y + r * size, size, top[r], factors[r]);
            else
                normalise(y + r * size, size, factors[r]);
        }
        first += count, x += count * size, y += count * size;
    }
}

template <int vectors>
void softmax_columns(Element const* x, Element* y, int64_t size, int64_t stride, int tail, bool is_log,
                     bool nan_to_zero) {
    Vec top[vectors], sums[vectors];
    auto at = [&](Element const* p, int64_t k, int v) __attribute__((always_inline)) {
        return load_part(p + k * stride + v * kWidth, v + 1 == vectors ? tail : kWidth);
    };
    auto put = [&](Vec value, int64_t k, int v) __attribute__((always_inline)) {
        store_part(value, y + k * stride + v * kWidth, v + 1 == vectors ? tail : kWidth);
    };
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) top[v] = Vec::set(-kInf), sums[v] = Vec::zero();
    for (int64_t k = 0; k < size; ++k)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) top[v] = max(at(x, k, v), top[v]);
    for (int64_t k = 0; k < size; ++k)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            Vec e = exp_of_negative(at(x, k, v) - top[v]);
            sums[v] = sums[v] + e;
            if (!is_log) put(e, k, v);
        }
    for (int v = 0; v < vectors; ++v) {
        Mask none = (top[v] == Vec::set(-kInf)) | is_nan(sums[v]);
        Vec factor = is_log ? log(sums[v]) : Vec::set(1) / sums[v];
        for (int64_t k = 0; k < size; ++k) {
            Vec value = is_log ? at(x, k, v) - top[v] - factor : at(y, k, v) * factor;
            put(nan_to_zero ? select(none, Vec::zero(), value) : value, k, v);
        }
    }
}

/// Most vectors after which few columns begin at a lane 0 again.
constexpr int kPeriod = kWidth - 1;

/// Lane i of all vectors, one behind the other, becomes the sum (or the maximum) of the lanes i, i ± n, i ± 2n …; n
/// divides their number.
template <bool maximum>
void fold_lanes(Vec* vectors, int count, int64_t n) {
    alignas(64) Element lanes[(kPeriod + 1) * kWidth];
    int64_t const all = count * kWidth;
    for (int v = 0; v < count; ++v) vectors[v].store(lanes + v * kWidth);
    vectors[0].store(lanes + all);  // behind the last columns, where what is read does not matter
    Vec folded = vectors[0];
    for (int64_t i = n; i < all; i += n) {
        Vec next = Vec::load(lanes + i);
        folded = maximum ? max(next, folded) : folded + next;
    }
    for (int64_t i = 0; i < all; i += n) folded.store(lanes + i);
    for (int v = 0; v < count; ++v) vectors[v] = Vec::load(lanes + v * kWidth);
}

/// Calls `f(at, left, vector)` for vectors of `count` elements, whose numbers begin again after `period`.
template <class F>
RG_SIMD void each_vector(int64_t count, int period, F f) {
    int64_t i = 0;
    for (; i + period * kWidth <= count; i += period * kWidth)
        for (int v = 0; v < period; ++v) f(i + v * kWidth, kWidth, v);
    for (int v = 0; i < count; ++v, i += kWidth) f(i, left_of(count - i), v);
}

/// Columns that fill a part of a vector, which some vectors hold over and over: all `count` elements are read as one
/// row.
template <bool is_log>
void softmax_periodic(Element const* x, Element* y, int64_t count, int64_t n, int period, bool nan_to_zero) {
    Vec top[kPeriod], sums[kPeriod], factor[kPeriod];
    for (int v = 0; v < period; ++v) top[v] = Vec::set(-kInf), sums[v] = Vec::zero();
    each_vector(
        count, period, [&](int64_t i, int left, int v) __attribute__((always_inline)) {
            top[v] = max(select(first_lanes(left), load_part(x + i, left), Vec::set(-kInf)), top[v]);
        });
    fold_lanes<true>(top, period, n);
    each_vector(
        count, period, [&](int64_t i, int left, int v) __attribute__((always_inline)) {
            Vec e = exp_of_negative(load_part(x + i, left) - top[v]);
            sums[v] = sums[v] + select(first_lanes(left), e, Vec::zero());
            if (!is_log) store_part(e, y + i, left);
        });
    fold_lanes<false>(sums, period, n);
    bool has_none = false;
    for (int v = 0; v < period; ++v) {
        factor[v] = is_log ? log(sums[v]) : Vec::set(1) / sums[v];
        has_none |= any((top[v] == Vec::set(-kInf)) | is_nan(sums[v]));
    }
    has_none &= nan_to_zero;
    each_vector(
        count, period, [&](int64_t i, int left, int v) __attribute__((always_inline)) {
            Vec value = is_log ? load_part(x + i, left) - top[v] - factor[v] : load_part(y + i, left) * factor[v];
            if (has_none) value = select((top[v] == Vec::set(-kInf)) | is_nan(sums[v]), Vec::zero(), value);
            store_part(value, y + i, left);
        });
}

/// Vectors after which columns of `n` begin at a lane 0 again.
int period_of(int64_t n) {
    int period = 1;
    while (period * kWidth % n) ++period;
    return period;
}

void softmax_columns(Element const* x, Element* y, int64_t size, int64_t stride, int64_t n, bool log,
                     bool nan_to_zero) {
    if (n == stride && n < kWidth && (kWidth % n == 0 || size >= 2 * kWidth))
        return log ? softmax_periodic<true>(x, y, size * n, n, period_of(n), nan_to_zero)
                   : softmax_periodic<false>(x, y, size * n, n, period_of(n), nan_to_zero);
    auto vectors = (n + kWidth - 1) / kWidth;
    auto tail = static_cast<int>(n - (vectors - 1) * kWidth);
    switch (vectors) {
        case 1:
            return softmax_columns<1>(x, y, size, stride, tail, log, nan_to_zero);
        case 2:
            return softmax_columns<2>(x, y, size, stride, tail, log, nan_to_zero);
        case 3:
            return softmax_columns<3>(x, y, size, stride, tail, log, nan_to_zero);
        default:
            return softmax_columns<4>(x, y, size, stride, tail, log, nan_to_zero);
    }
}

template <int size>
void softmax_turned(Element const* x, Element* y, int64_t rows, bool log, bool nan_to_zero) {
    constexpr int64_t kRows = 4 * kWidth;
    Element turned[size * kRows];
    for (int64_t first = 0; first < rows; first += kRows) {
        int64_t count = rows - first < kRows ? rows - first : kRows;
        Element const* from = x + first * size;
        Element* to = y + first * size;
        for (int64_t r = 0; r < count; ++r)
            for (int k = 0; k < size; ++k) turned[k * kRows + r] = from[r * size + k];
        softmax_columns(turned, turned, size, kRows, count, log, nan_to_zero);
        for (int64_t r = 0; r < count; ++r)
            for (int k = 0; k < size; ++k) to[r * size + k] = turned[k * kRows + r];
    }
}

/// Rows of a few elements: a row becomes a lane.
void softmax_turned(Element const* x, Element* y, int64_t rows, int64_t size, bool log, bool nan_to_zero) {
    switch (size) {
        case 1:
            return softmax_turned<1>(x, y, rows, log, nan_to_zero);
        case 2:
            return softmax_turned<2>(x, y, rows, log, nan_to_zero);
        case 3:
            return softmax_turned<3>(x, y, rows, log, nan_to_zero);
        default:
            return softmax_turned<kLongestTurned>(x, y, rows, log, nan_to_zero);
    }
}

}  // namespace
}  // namespace refactor::kernel
