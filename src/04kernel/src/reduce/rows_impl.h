#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h` first.
#include "reduce/rows.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width;
/// Vectors worked on together: enough to hide the latency of an addition (4 cycles, 2 units; 8 where it matters is no
/// faster than L2).
constexpr int kLanes = 4;
constexpr float kInf = __builtin_inff();

RG_SIMD int left_of(int64_t count) { return count < kWidth ? static_cast<int>(count) : kWidth; }
RG_SIMD Vec load_part(float const* p, int left) { return left == kWidth ? Vec::load(p) : Vec::load_first(p, left); }
RG_SIMD void store_part(Vec x, float* p, int left) { left == kWidth ? x.store(p) : x.store_first(p, left); }

template <RowOp op>
constexpr float kIdentity = op == RowOp::Max    ? -kInf
                            : op == RowOp::Min  ? kInf
                            : op == RowOp::Prod ? 1.f
                                                : 0.f;

template <RowOp op>
RG_SIMD Vec mapped(Vec x, Vec shift) {
    if constexpr (op == RowOp::Abs)
        return abs(x);
    else if constexpr (op == RowOp::Exp)
        return exp(x - shift);
    else
        return x;
}
/// `x` is a mapped value. Once NaN, Max and Min stay NaN.
template <RowOp op>
RG_SIMD Vec combine(Vec acc, Vec x) {
    if constexpr (op == RowOp::Max)
        return select(is_nan(acc), acc, max(acc, x));
    else if constexpr (op == RowOp::Min)
        return select(is_nan(acc), acc, min(acc, x));
    else if constexpr (op == RowOp::Prod)
        return acc * x;
    else if constexpr (op == RowOp::Square)
        return fma(x, x, acc);
    else
        return acc + x;
}
/// Joins two accumulators.
template <RowOp op>
RG_SIMD Vec join(Vec a, Vec b) {
    if constexpr (op == RowOp::Square)
        return a + b;
    else
        return combine<op>(a, b);
}
template <RowOp op>
RG_SIMD float across(Vec a) {
    if constexpr (op == RowOp::Max || op == RowOp::Min) {
        if (any(is_nan(a))) return __builtin_nanf("");
        return op == RowOp::Max ? max_of(a) : min_of(a);
    } else if constexpr (op == RowOp::Prod) {
        alignas(64) float lane[kWidth];
        a.store(lane);
        for (int i = 1; i < kWidth; ++i) lane[0] *= lane[i];
        return lane[0];
    } else {
        return sum(a);
    }
}

template <RowOp op>
float partial(float const* x, int64_t count, float shift) {
    Vec acc[kLanes], s = Vec::set(shift);
#pragma GCC unroll 4
    for (int v = 0; v < kLanes; ++v) acc[v] = Vec::set(kIdentity<op>);
    int64_t i = 0;
    for (; i + kLanes * kWidth <= count; i += kLanes * kWidth)
#pragma GCC unroll 4
        for (int v = 0; v < kLanes; ++v) acc[v] = combine<op>(acc[v], mapped<op>(Vec::load(x + i + v * kWidth), s));
    for (; i < count; i += kWidth) {
        int left = left_of(count - i);
        Vec m = mapped<op>(load_part(x + i, left), s);
        acc[0] = combine<op>(acc[0], select(first_lanes(left), m, Vec::set(kIdentity<op>)));
    }
    return across<op>(join<op>(join<op>(acc[0], acc[1]), join<op>(acc[2], acc[3])));
}
float partial(RowOp op, float const* x, int64_t count, float shift) {
    using enum RowOp;
    switch (op) {
        case Sum:
            return partial<Sum>(x, count, shift);
        case Abs:
            return partial<Abs>(x, count, shift);
        case Square:
            return partial<Square>(x, count, shift);
        case Exp:
            return partial<Exp>(x, count, shift);
        case Max:
            return partial<Max>(x, count, shift);
        case Min:
            return partial<Min>(x, count, shift);
        case Prod:
            return partial<Prod>(x, count, shift);
    }
    return 0;
}

/// One vector of columns at all offsets of the runs; `total` is joined every kRowsOfOneSum rows to keep rounding small.
template <RowOp op, int vectors>
struct Columns {
    static constexpr int kRowsOfOneSum = 256;
    Vec acc[vectors], total[vectors], shift[vectors];
    int tail, rows = 0;

    RG_SIMD void flush() {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) total[v] = join<op>(total[v], acc[v]), acc[v] = Vec::set(kIdentity<op>);
        rows = 0;
    }
    void add(float const* x, RowRun const* runs, int count) {
        if (count > 1) {
            for (int64_t i = 0; i < runs->size; ++i) add(x + i * runs->stride, runs + 1, count - 1);
            return;
        }
        for (int64_t i = 0; i < (count ? runs->size : 1); ++i, x += count ? runs->stride : 0) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v)
                acc[v] = combine<op>(
                    acc[v], mapped<op>(v + 1 == vectors ? load_part(x + v * kWidth, tail) : Vec::load(x + v * kWidth),
                                       shift[v]));
            if (++rows == kRowsOfOneSum) flush();
        }
    }
};
template <RowOp op, int vectors>
void columns_of(float const* x, int64_t columns, RowRun const* runs, int count, float const* shift, float* y) {
    Columns<op, vectors> c;
    c.tail = static_cast<int>(columns - (vectors - 1) * kWidth);
    for (int v = 0; v < vectors; ++v) {
        c.acc[v] = c.total[v] = Vec::set(kIdentity<op>);
        c.shift[v] = shift ? load_part(shift + v * kWidth, v + 1 == vectors ? c.tail : kWidth) : Vec::zero();
    }
    c.add(x, runs, count);
    c.flush();
    for (int v = 0; v < vectors; ++v) store_part(c.total[v], y + v * kWidth, v + 1 == vectors ? c.tail : kWidth);
}
template <RowOp op>
void columns_of(float const* x, int64_t columns, RowRun const* runs, int count, float const* shift, float* y) {
    switch ((columns + kWidth - 1) / kWidth) {
        case 1:
            return columns_of<op, 1>(x, columns, runs, count, shift, y);
        case 2:
            return columns_of<op, 2>(x, columns, runs, count, shift, y);
        case 3:
            return columns_of<op, 3>(x, columns, runs, count, shift, y);
        default:
            return columns_of<op, 4>(x, columns, runs, count, shift, y);
    }
}
void columns(RowOp op, float const* x, int64_t n, RowRun const* runs, int count, float const* shift, float* y) {
    using enum RowOp;
    switch (op) {
        case Sum:
            return columns_of<Sum>(x, n, runs, count, shift, y);
        case Abs:
            return columns_of<Abs>(x, n, runs, count, shift, y);
        case Square:
            return columns_of<Square>(x, n, runs, count, shift, y);
        case Exp:
            return columns_of<Exp>(x, n, runs, count, shift, y);
        case Max:
            return columns_of<Max>(x, n, runs, count, shift, y);
        case Min:
            return columns_of<Min>(x, n, runs, count, shift, y);
        case Prod:
            return columns_of<Prod>(x, n, runs, count, shift, y);
    }
}

/// Largest element that is not NaN.
float largest(float const* x, int64_t size) {
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

/// Stores exponentials of the differences from `top`, unless `log`, and returns their sum.
float exponentials(float const* x, float* y, int64_t size, float top, bool log) {
    Vec shift = Vec::set(top), sums[2] = {Vec::zero(), Vec::zero()};
    int64_t i = 0;
    for (; i + 2 * kWidth <= size; i += 2 * kWidth) {
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

void fill_zero(float* y, int64_t size) {
    for (int64_t i = 0; i < size; i += kWidth) store_part(Vec::zero(), y + i, left_of(size - i));
}

/// Makes softmax of exponentials in y, or log-softmax of x.
void normalise(float const* x, float* y, int64_t size, float top, float all, bool log) {
    Vec factor = Vec::set(1 / all), shift = Vec::set(top), log_sum = Vec::set(log ? __builtin_logf(all) : 0);
    int64_t i = 0;
    for (; !log && i + kWidth <= size; i += kWidth) (Vec::load(y + i) * factor).store(y + i);
    for (; i < size; i += kWidth) {
        int left = left_of(size - i);
        store_part(log ? load_part(x + i, left) - shift - log_sum : load_part(y + i, left) * factor, y + i, left);
    }
}

/// Some rows together, as long as they stay in L1: the steps that bring a row down to one number wait for each other,
/// those of the next row do not.
void softmax(float const* x, float* y, int64_t rows, int64_t size, bool log, bool nan_to_zero) {
    constexpr int64_t kMost = 4, kLongest = 1024;
    for (int64_t first = 0; first < rows;) {
        int64_t count = size > kLongest ? 1 : rows - first < kMost ? rows - first : kMost;
        float top[kMost], all[kMost];
        for (int64_t r = 0; r < count; ++r) top[r] = largest(x + r * size, size);
        for (int64_t r = 0; r < count; ++r) all[r] = exponentials(x + r * size, y + r * size, size, top[r], log);
        for (int64_t r = 0; r < count; ++r) {
            if (nan_to_zero && (top[r] == -kInf || all[r] != all[r]))
                fill_zero(y + r * size, size);
            else
                normalise(x + r * size, y + r * size, size, top[r], all[r], log);
        }
        first += count, x += count * size, y += count * size;
    }
}

template <int vectors>
void softmax_columns(float const* x, float* y, int64_t size, int64_t stride, int tail, bool is_log, bool nan_to_zero) {
    Vec top[vectors], sums[vectors];
    auto at = [&](float const* p, int64_t k, int v) __attribute__((always_inline)) {
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

/// Lane l becomes the sum (or the maximum) of the lanes l, l ± n, l ± 2n …; n divides the width.
template <bool maximum>
Vec fold_lanes(Vec value, int64_t n) {
    alignas(64) float lanes[kWidth];
    value.store(lanes);
    for (int64_t i = n; i < kWidth; ++i) {
        float &to = lanes[i % n], from = lanes[i];
        to = maximum ? (to > from ? to : from) : to + from;
    }
    for (int64_t i = n; i < kWidth; ++i) lanes[i] = lanes[i % n];
    return Vec::load(lanes);
}

/// Columns that fill a part of a vector, which is `n` of them over and over: all `count` elements are read as one row.
void softmax_periodic(float const* x, float* y, int64_t count, int64_t n, bool is_log, bool nan_to_zero) {
    Vec top = Vec::set(-kInf), sums = Vec::zero();
    for (int64_t i = 0; i < count; i += kWidth) {
        int left = left_of(count - i);
        top = max(select(first_lanes(left), load_part(x + i, left), Vec::set(-kInf)), top);
    }
    top = fold_lanes<true>(top, n);
    for (int64_t i = 0; i < count; i += kWidth) {
        int left = left_of(count - i);
        Vec e = exp(load_part(x + i, left) - top);
        sums = sums + select(first_lanes(left), e, Vec::zero());
        if (!is_log) store_part(e, y + i, left);
    }
    sums = fold_lanes<false>(sums, n);
    Mask none = (top == Vec::set(-kInf)) | is_nan(sums);
    Vec factor = is_log ? log(sums) : Vec::set(1) / sums;
    for (int64_t i = 0; i < count; i += kWidth) {
        int left = left_of(count - i);
        Vec value = is_log ? load_part(x + i, left) - top - factor : load_part(y + i, left) * factor;
        store_part(nan_to_zero ? select(none, Vec::zero(), value) : value, y + i, left);
    }
}

void softmax_columns(float const* x, float* y, int64_t size, int64_t stride, int64_t n, bool log, bool nan_to_zero) {
    if (n == stride && n < kWidth && kWidth % n == 0) return softmax_periodic(x, y, size * n, n, log, nan_to_zero);
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

/// Sum of (x - mean)².
float squares(float const* x, int64_t size, float mean) {
    Vec acc[kLanes], m = Vec::set(mean);
#pragma GCC unroll 4
    for (int v = 0; v < kLanes; ++v) acc[v] = Vec::zero();
    int64_t i = 0;
    for (; i + kLanes * kWidth <= size; i += kLanes * kWidth)
#pragma GCC unroll 4
        for (int v = 0; v < kLanes; ++v) {
            Vec d = Vec::load(x + i + v * kWidth) - m;
            acc[v] = fma(d, d, acc[v]);
        }
    for (; i < size; i += kWidth) {
        int left = left_of(size - i);
        Vec d = select(first_lanes(left), load_part(x + i, left) - m, Vec::zero());
        acc[0] = fma(d, d, acc[0]);
    }
    return sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

void layer_norm(NormRow const& r) {
    float const* x = r.x;
    if (r.residual) {
        float* added = r.sum ? r.sum : r.y;
        for (int64_t i = 0; i < r.size; i += kWidth) {
            int left = left_of(r.size - i);
            store_part(load_part(x + i, left) + load_part(r.residual + i, left), added + i, left);
        }
        x = added;
    } else if (r.sum) {
        for (int64_t i = 0; i < r.size; i += kWidth) {
            int left = left_of(r.size - i);
            store_part(load_part(x + i, left), r.sum + i, left);
        }
    }
    auto size = static_cast<float>(r.size);
    float mean = r.rms ? 0 : partial<RowOp::Sum>(x, r.size, 0) / size;
    float factor = 1 / __builtin_sqrtf(squares(x, r.size, mean) / size + r.epsilon);
    Vec m = Vec::set(mean), f = Vec::set(factor);
    Vec scale = Vec::set(*r.scale), bias = r.bias ? Vec::set(*r.bias) : Vec::zero();
    for (int64_t i = 0; i < r.size; i += kWidth) {
        int left = left_of(r.size - i);
        if (r.scale_step) scale = load_part(r.scale + i, left);
        if (r.bias && r.bias_step) bias = load_part(r.bias + i, left);
        store_part(fma((load_part(x + i, left) - m) * f, scale, bias), r.y + i, left);
    }
}

void group_norm(float const* x, float const* scale, float const* bias, float* y, int64_t channels, int64_t positions,
                float epsilon) {
    auto size = static_cast<float>(channels * positions);
    float mean = partial<RowOp::Sum>(x, channels * positions, 0) / size;
    float factor = 1 / __builtin_sqrtf(squares(x, channels * positions, mean) / size + epsilon);
    for (int64_t c = 0; c < channels; ++c, x += positions, y += positions) {
        Vec m = Vec::set(mean), f = Vec::set(factor * scale[c]), b = Vec::set(bias[c]);
        for (int64_t i = 0; i < positions; i += kWidth) {
            int left = left_of(positions - i);
            store_part(fma(load_part(x + i, left) - m, f, b), y + i, left);
        }
    }
}

constexpr RowFunctions kFunctions{kWidth, partial, columns, softmax, softmax_columns, layer_norm, group_norm};

}  // namespace
}  // namespace refactor::kernel
