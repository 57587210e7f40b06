#pragma once
// Loops of products of operands that are rounded to bf16.
#define RG_ROWS 6
#define RG_VECTORS 4
#define RG_BF16_PAIRS
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx512.h"
#include "simd/bf16_pairs.h"
#include "simd/math.h"
#include "simd/activate.h"
#include "matmul/product_tile.h"
#include "matmul/round_operands.h"
// clang-format on

namespace refactor::kernel {
namespace {

/// Panels of pairs come in no smaller type.
RG_SIMD void widen_rows(Block const&, int64_t, int64_t, int64_t, int64_t, int64_t) {}

}  // namespace
}  // namespace refactor::kernel

#include "matmul/product_impl.h"
