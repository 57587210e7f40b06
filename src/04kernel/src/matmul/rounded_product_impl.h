#pragma once
// Products of operands rounded to bf16 by tiles; include what emulates tiles first, where they are.
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
#include "matmul/no_widening.h"
#include "matmul/product_impl.h"
#include "matmul/product_tiles_impl.h"
// clang-format on
