#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h`, or those for f64, first.
#include "reduce/rows_reduce_impl.h"

namespace refactor::kernel {
namespace {

/// Several rows together, whose accumulators do not wait for each other.
template <RowOp op, int vectors>
void column_sets(Element const* x, int64_t sets, int64_t size, int64_t columns, Element const* shift, Element* y) {
    constexpr int kRows = kLanes / vectors;
    int const tail = static_cast<int>(columns - (vectors - 1) * kWidth);
    auto const identity = Vec::set(kIdentity<op>);
    for (int64_t set = 0; set < sets; ++set, y += columns) {
        Vec acc[kRows][vectors], less[vectors];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) {
            less[v] =
                shift ? load_part(shift + set * columns + v * kWidth, v + 1 == vectors ? tail : kWidth) : Vec::zero();
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r) acc[r][v] = identity;
        }
        auto add = [&](int r, Element const* row) __attribute__((always_inline)) {
#pragma GCC unroll 2
            for (int v = 0; v < vectors; ++v)
                acc[r][v] = combine<op>(acc[r][v], mapped<op>(v + 1 == vectors ? Vec::load_first(row + v * kWidth, tail)
                                                                               : Vec::load(row + v * kWidth),
                                                              less[v]));
        };
        int64_t i = 0;
        for (; i + kRows <= size; i += kRows, x += kRows * columns)
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r) add(r, x + r * columns);
        for (; i < size; ++i, x += columns) add(0, x);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) {
#pragma GCC unroll 4
            for (int r = 1; r < kRows; ++r) acc[0][v] = join<op>(acc[0][v], acc[r][v]);
            store_part(acc[0][v], y + v * kWidth, v + 1 == vectors ? tail : kWidth);
        }
    }
}
template <RowOp op>
void column_sets(Element const* x, int64_t sets, int64_t size, int64_t columns, Element const* shift, Element* y) {
    if (columns <= kWidth) return column_sets<op, 1>(x, sets, size, columns, shift, y);
    column_sets<op, 2>(x, sets, size, columns, shift, y);
}
void column_sets(RowOp op, Element const* x, int64_t sets, int64_t size, int64_t columns, Element const* shift,
                 Element* y) {
    using enum RowOp;
    switch (op) {
        case Sum:
            return column_sets<Sum>(x, sets, size, columns, shift, y);
        case Abs:
            return column_sets<Abs>(x, sets, size, columns, shift, y);
        case Square:
            return column_sets<Square>(x, sets, size, columns, shift, y);
        case Exp:
            return column_sets<Exp>(x, sets, size, columns, shift, y);
        case Max:
            return column_sets<Max>(x, sets, size, columns, shift, y);
        case Min:
            return column_sets<Min>(x, sets, size, columns, shift, y);
        case Prod:
            return column_sets<Prod>(x, sets, size, columns, shift, y);
    }
}

void finish(RowEnd end, Element* y, int64_t count, Element divisor, Element const* shift) {
    auto const by = Vec::set(divisor);
    for (int64_t i = 0; i < count; i += kWidth) {
        int const left = left_of(count - i);
        Vec total = load_part(y + i, left);
        if (end == RowEnd::Divide)
            total = total / by;
        else if (end == RowEnd::Root)
            total = sqrt(total);
        else
            total = shift ? log(total) + load_part(shift + i, left) : log(total);
        store_part(total, y + i, left);
    }
}

}  // namespace
}  // namespace refactor::kernel
