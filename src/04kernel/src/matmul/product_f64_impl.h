#pragma once
// Products of f64; include `vec_f64_*.h`, `math_f64.h` and `activate.h` first.
#include "matmul/product_tile.h"

namespace refactor::kernel {
namespace {

/// Weights of f64 come in no smaller type.
RG_SIMD void widen_rows(Block const&, int64_t, int64_t, int64_t, int64_t, int64_t) {}

}  // namespace
}  // namespace refactor::kernel

#include "matmul/product_columns_impl.h"
#include "matmul/product_flat_impl.h"
#include "matmul/product_impl.h"
#include "matmul/product_vector_impl.h"

namespace refactor::kernel {
namespace {

constexpr ProductFunctionsOf<double> kFunctions{
    kWidth,           kRows,   kPanel,  multiply,      multiply_dots, multiply_streamed,
    multiply_columns, nullptr, nullptr, multiply_flat, kFlatMost,     pack};

}  // namespace
}  // namespace refactor::kernel
