#pragma once
// Written against `Vec`; include `vec_*.h` and `math.h`, or those for f64, first.
#include "reduce/rows_reduce_impl.h"

namespace refactor::kernel {
namespace {

/// As many rows together as a vector has lanes: their accumulators are transposed, so that no row is combined across
/// lanes.
template <RowOp op>
void short_rows(Element const* x, int64_t rows, int64_t size, Element const* shift, Element* y) {
    auto const identity = Vec::set(kIdentity<op>);
    auto shift_of = [&](int64_t row) { return shift ? shift[row] : 0; };
    int64_t const whole = size & -kWidth;
    int const left = static_cast<int>(size - whole);
    int64_t row = 0;
    for (; row + kWidth <= rows; row += kWidth) {
        auto const* first = x + row * size;
        Vec acc[kWidth];
#pragma GCC unroll 16
        for (int r = 0; r < kWidth; ++r) {
            acc[r] = identity;
            if (left) {
                Vec m = mapped<op>(Vec::load_first(first + r * size + whole, left), Vec::set(shift_of(row + r)));
                acc[r] = combine<op>(identity, select(first_lanes(left), m, identity));
            }
        }
        for (int64_t i = 0; i < whole; i += kWidth)
#pragma GCC unroll 16
            for (int r = 0; r < kWidth; ++r)
                acc[r] = combine<op>(acc[r], mapped<op>(Vec::load(first + r * size + i), Vec::set(shift_of(row + r))));
        transpose(acc);
#pragma GCC unroll 4
        for (int half = kWidth / 2; half > 0; half /= 2)
#pragma GCC unroll 8
            for (int r = 0; r < half; ++r) acc[r] = join<op>(acc[r], acc[r + half]);
        acc[0].store(y + row);
    }
    for (; row < rows; ++row) y[row] = partial<op>(x + row * size, size, shift_of(row));
}
void short_rows(RowOp op, Element const* x, int64_t rows, int64_t size, Element const* shift, Element* y) {
    using enum RowOp;
    switch (op) {
        case Sum:
            return short_rows<Sum>(x, rows, size, shift, y);
        case Abs:
            return short_rows<Abs>(x, rows, size, shift, y);
        case Square:
            return short_rows<Square>(x, rows, size, shift, y);
        case Exp:
            return short_rows<Exp>(x, rows, size, shift, y);
        case Max:
            return short_rows<Max>(x, rows, size, shift, y);
        case Min:
            return short_rows<Min>(x, rows, size, shift, y);
        case Prod:
            return short_rows<Prod>(x, rows, size, shift, y);
    }
}

}  // namespace
}  // namespace refactor::kernel
