#pragma once
// Products of f32 by tiles; include what emulates tiles first, where they are.
#define RG_ROWS 6
#define RG_VECTORS 4
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx512.h"
#include "simd/math.h"
#include "simd/activate.h"
#include "matmul/product_tile.h"
#include "matmul/widen.h"
#include "matmul/widen_rows.h"
#include "matmul/product_impl.h"
#include "matmul/split_tiles_impl.h"
// clang-format on
