#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h`, or those for f64, first.
#include "reduce/rows_parts_impl.h"

namespace refactor::kernel {
namespace {

template <RowOp op>
constexpr Element kIdentity = op == RowOp::Max    ? -kInf
                              : op == RowOp::Min  ? kInf
                              : op == RowOp::Prod ? 1
                                                  : 0;

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
RG_SIMD Element across(Vec a) {
    if constexpr (op == RowOp::Max || op == RowOp::Min) {
        if (any(is_nan(a))) return static_cast<Element>(__builtin_nan(""));
        return op == RowOp::Max ? max_of(a) : min_of(a);
    } else if constexpr (op == RowOp::Prod) {
        alignas(64) Element lane[kWidth];
        a.store(lane);
        for (int i = 1; i < kWidth; ++i) lane[0] *= lane[i];
        return lane[0];
    } else {
        return sum(a);
    }
}

template <RowOp op>
Element partial(Element const* x, int64_t count, Element shift) {
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
Element partial(RowOp op, Element const* x, int64_t count, Element shift) {
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
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) total[v] = join<op>(total[v], acc[v]), acc[v] = Vec::set(kIdentity<op>);
        rows = 0;
    }
    RG_SIMD void store(Element* y) {
        flush();
#pragma GCC unroll 8
        for (int v = 0; v < vectors; ++v) store_part(total[v], y + v * kWidth, v + 1 == vectors ? tail : kWidth);
    }
    RG_SIMD void add_rows(Element const* x, int64_t size, int64_t stride) {
        for (int64_t i = 0; i < size; ++i, x += stride) {
#pragma GCC unroll 8
            for (int v = 0; v < vectors; ++v)
                acc[v] = combine<op>(
                    acc[v], mapped<op>(v + 1 == vectors ? load_part(x + v * kWidth, tail) : Vec::load(x + v * kWidth),
                                       shift[v]));
            if (++rows == kRowsOfOneSum) flush();
        }
    }
    void add(Element const* x, RowRun const* runs, int count) {
        if (count > 1) {
            for (int64_t i = 0; i < runs->size; ++i) add(x + i * runs->stride, runs + 1, count - 1);
            return;
        }
        // In registers: in memory every load might be of the sums.
        Columns sums = *this;
        sums.add_rows(x, count ? runs->size : 1, count ? runs->stride : 0);
        *this = sums;
    }
};
template <RowOp op, int vectors>
void column_vectors_of(Element const* x, int64_t columns, RowRun const* runs, int count, Element const* shift,
                       Element* y) {
    Columns<op, vectors> fresh;
    fresh.tail = static_cast<int>(columns - (vectors - 1) * kWidth);
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
        fresh.acc[v] = fresh.total[v] = Vec::set(kIdentity<op>);
        fresh.shift[v] = shift ? load_part(shift + v * kWidth, v + 1 == vectors ? fresh.tail : kWidth) : Vec::zero();
    }
    if (count == 1) {
        fresh.add_rows(x, runs->size, runs->stride);
        return fresh.store(y);
    }
    auto several = fresh;
    several.add(x, runs, count);
    several.store(y);
}

/// Columns side by side: sums, their parts and shifts of AVX-512 take 24 of 32 registers, those of AVX2 12 of 16.
constexpr int kColumnVectors = sizeof(Vec) == 64 ? 8 : 4;

template <RowOp op, int vectors = kColumnVectors>
void columns_of(Element const* x, int64_t columns, RowRun const* runs, int count, Element const* shift, Element* y) {
    if constexpr (vectors > 1)
        if (columns <= (vectors - 1) * kWidth) return columns_of<op, vectors - 1>(x, columns, runs, count, shift, y);
    column_vectors_of<op, vectors>(x, columns, runs, count, shift, y);
}
void columns(RowOp op, Element const* x, int64_t n, RowRun const* runs, int count, Element const* shift, Element* y) {
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

}  // namespace
}  // namespace refactor::kernel
