#pragma once
// Rows of floats as pairs of bf16; include `product_tile.h` and `bf16_pairs.h` first.
#include "matmul/rounded_product.h"

namespace refactor::kernel {
namespace {

/// The first `n` in [0, 32] of 32 floats, the others being zeros.
RG_SIMD Vec round_some(float const* x, int64_t n) {
    int low = static_cast<int>(smaller(n, kWidth)), high = static_cast<int>(n - low);
    return round_to_pairs(Vec::load_first(x, low), Vec::load_first(x + low, high));
}

void round_rows(float const* x, int64_t x_row, int64_t rows, int64_t k, float* pairs, int64_t pairs_row) {
    for (; rows > 0; --rows, x += x_row, pairs += pairs_row) {
        int64_t p = 0;
        for (; p + 2 * kWidth <= k; p += 2 * kWidth)
            round_to_pairs(Vec::load(x + p), Vec::load(x + p + kWidth)).store(pairs + p / 2);
        if (p < k) round_some(x + p, k - p).store_first(pairs + p / 2, static_cast<int>(pairs_of(k - p)));
    }
}

}  // namespace
}  // namespace refactor::kernel
