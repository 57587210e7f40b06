#pragma once
// What loops of integer products share, whatever adds the products: include `integer_lanes_*.h` and define
// RG_VECTORS, of a panel, first.
#include "integer_matmul/integer_finish.h"

namespace refactor::kernel {
namespace {

constexpr int kVectors = RG_VECTORS, kPanel = kWidth * kVectors;

/// What zero points that differ by row or column take from a sum.
RG_SIMD void correct(IntegerBlock const& t, Lanes& sum, int64_t row, int64_t column) {
    if (t.b_zero) sum = sum - Lanes::set(t.row_sum[row]) * Lanes::load(t.b_zero + column);
    if (t.row_zero) sum = sum - Lanes::set(t.row_zero[row]) * Lanes::load(t.column_sum + column);
}

}  // namespace
}  // namespace refactor::kernel

#if RG_VECTORS == 4
#include "integer_matmul/integer_store_avx512.h"
#else
#include "integer_matmul/integer_store_avx2.h"
#endif
