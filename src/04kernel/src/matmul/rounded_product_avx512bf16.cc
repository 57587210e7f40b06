#include "matmul/rounded_product.h"

#define RG_ROWS 6
#define RG_VECTORS 4
#define RG_BF16_PAIRS
// clang-format off: what is included later is written against the wrapper.
#include "simd/vec_avx512.h"
#include "simd/bf16_pairs.h"
#include "simd/math.h"
#include "simd/activate.h"
#include "matmul/product_tile.h"
// clang-format on

namespace refactor::kernel {
namespace {

/// Panels of pairs come in no smaller type.
RG_SIMD void widen_rows(Block const&, int64_t, int64_t, int64_t, int64_t, int64_t) {}

}  // namespace
}  // namespace refactor::kernel

#include "matmul/product_impl.h"

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

/// Columns of [K, N] to [pairs of k][width of the panel].
void pack_pairs_of_rows(float* target, float const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t p = 0; p < k; p += 2, b += 2 * b_row, target += wide)
        for (int64_t v = 0; v < wide; v += kWidth) {
            int left = static_cast<int>(smaller(kWidth, n - v));
            Vec odd = p + 1 < k ? Vec::load_first(b + b_row + v, left) : Vec::zero();
            round_side_by_side(Vec::load_first(b + v, left), odd).store(target + v);
        }
}
/// Rows of [N, K] to [pairs of k][width of the panel], a square of registers at a time.
void pack_pairs_of_columns(float* target, float const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t v = 0; v < wide; v += kWidth)
        for (int64_t p = 0; p < k; p += 2 * kWidth) {
            int64_t left = smaller(2 * kWidth, k - p);
            Vec r[kWidth];
#pragma GCC unroll 16
            for (int i = 0; i < kWidth; ++i) r[i] = v + i < n ? round_some(b + (v + i) * b_row + p, left) : Vec::zero();
            transpose(r);
#pragma GCC unroll 16
            for (int i = 0; i < kWidth; ++i)
                if (2 * i < left) r[i].store(target + (p / 2 + i) * wide + v);
        }
}
void pack_pairs(float* target, float const* b, int64_t b_row, bool columns, int64_t n, int64_t k) {
    for (int64_t j = 0; j < n; j += kPanel) {
        int64_t count = smaller(kPanel, n - j), wide = width_of(count);
        if (columns)
            pack_pairs_of_columns(target, b + j * b_row, b_row, count, k, wide);
        else
            pack_pairs_of_rows(target, b + j, b_row, count, k, wide);
        target += pairs_of(k) * wide;
    }
}

constexpr RoundedFunctions kRounded{
    {kWidth, kRows, kPanel, multiply, nullptr, nullptr, nullptr, nullptr, nullptr, pack_pairs}, round_rows};

}  // namespace

RoundedFunctions const& rounded_functions_avx512bf16() { return kRounded; }

}  // namespace refactor::kernel
