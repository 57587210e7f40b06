#pragma once
#include "matmul/product.h"

// Products of operands that are rounded to bf16, two of which share a lane: the loops of products of f32 over half as
// many steps, each of which multiplies a pair (VDPBF16PS).

namespace refactor::kernel {

/// Steps along k, and elements of a row of pairs.
constexpr int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

struct RoundedFunctions {
    /// `multiply` and `tiles` alone, with k and panels of pairs: of A in pairs and packed B, or, with
    /// `ProductBlock::elements`, of f32, which it rounds. `pack` takes B and k in f32 and makes `pairs_of(k)` rows, the
    /// last of an odd number with zeros.
    ProductFunctions product;
    /// Rows of `k` floats, `x_row` apart, to rows of `pairs_of(k)` pairs, `pairs_row` apart, the last of an odd number
    /// with a zero. They may begin where the rows of floats do.
    void (*round_rows)(float const* x, int64_t x_row, int64_t rows, int64_t k, float* pairs, int64_t pairs_row);
    /// As `product.pack`, of a B of bf16.
    void (*pack_narrow)(float* target, uint16_t const* b, int64_t b_row, bool columns, int64_t n, int64_t k);
    /// So many floats to bf16.
    void (*narrow)(float const* x, int64_t count, uint16_t* y);
};

RoundedFunctions const& rounded_functions_avx512bf16();
/// Those of AVX-512 BF16, and products by tiles.
RoundedFunctions const& rounded_functions_avx512amx();

}  // namespace refactor::kernel
