#pragma once
// Operands of f32 as pairs of bf16; include `product_tile.h` and `bf16_pairs.h` first.
#include "matmul/rounded_product.h"

namespace refactor::kernel {
namespace {

/// The first `n` in [0, 32] of 32 floats, the others being zeros.
RG_SIMD Vec first_pairs(float const* x, int64_t n) {
    int low = static_cast<int>(smaller(n, kWidth)), high = static_cast<int>(n - low);
    return round_to_pairs(Vec::load_first(x, low), Vec::load_first(x + low, high));
}

void round_rows(float const* x, int64_t x_row, int64_t rows, int64_t k, float* pairs, int64_t pairs_row) {
    for (; rows > 0; --rows, x += x_row, pairs += pairs_row) {
        int64_t p = 0;
        for (; p + 2 * kWidth <= k; p += 2 * kWidth)
            round_to_pairs(Vec::load(x + p), Vec::load(x + p + kWidth)).store(pairs + p / 2);
        if (p < k) first_pairs(x + p, k - p).store_first(pairs + p / 2, static_cast<int>(pairs_of(k - p)));
    }
}

/// The same of numbers of bf16.
RG_SIMD Vec first_pairs(uint16_t const* x, int64_t n) { return load_pairs(x, static_cast<int>(n)); }

/// The first `n` in [0, 16] of `even`, and of `odd` (null: zeros), side by side.
RG_SIMD Vec side_by_side(float const* even, float const* odd, int n) {
    return round_side_by_side(Vec::load_first(even, n), odd ? Vec::load_first(odd, n) : Vec::zero());
}

[[maybe_unused]] void narrow(float const* x, int64_t count, uint16_t* y) {
    int64_t i = 0;
    for (; i + 2 * kWidth <= count; i += 2 * kWidth)
        store_first_of_pairs(round_to_pairs(Vec::load(x + i), Vec::load(x + i + kWidth)), y + i, 2 * kWidth);
    if (i < count) store_first_of_pairs(first_pairs(x + i, count - i), y + i, static_cast<int>(count - i));
}

/// Columns of [K, N], of f32 or bf16, to [pairs of k][width of the panel].
template <class T>
void pack_pairs_of_rows(float* target, T const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t p = 0; p < k; p += 2, b += 2 * b_row, target += wide)
        for (int64_t v = 0; v < wide; v += kWidth)
            side_by_side(b + v, p + 1 < k ? b + b_row + v : nullptr, static_cast<int>(smaller(kWidth, n - v)))
                .store(target + v);
}
/// Rows of [N, K], of f32 or bf16, to [pairs of k][width of the panel], a square of registers at a time.
template <class T>
void pack_pairs_of_columns(float* target, T const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t v = 0; v < wide; v += kWidth)
        for (int64_t p = 0; p < k; p += 2 * kWidth) {
            int64_t left = smaller(2 * kWidth, k - p);
            Vec r[kWidth];
#pragma GCC unroll 16
            for (int i = 0; i < kWidth; ++i)
                r[i] = v + i < n ? first_pairs(b + (v + i) * b_row + p, left) : Vec::zero();
            transpose(r);
#pragma GCC unroll 16
            for (int i = 0; i < kWidth; ++i)
                if (2 * i < left) r[i].store(target + (p / 2 + i) * wide + v);
        }
}

}  // namespace
}  // namespace refactor::kernel
