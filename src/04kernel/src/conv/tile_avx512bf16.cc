#define RG_BF16_PAIRS
// clang-format off: the first chooses the instructions of what follows.
#include "conv/tile_impl.h"
#include "conv/band_pairs_impl.h"
// clang-format on

namespace refactor::kernel {
namespace {

/// Of a row of floats, `n` columns in steps; zeros outside of [0, limit), and everywhere without a row.
RG_SIMD Vec columns_of(float const* x, int64_t first, int64_t step, int64_t limit, int n) {
    if (!x) return Vec::zero();
    if (first >= 0 && first + step * W <= limit) {
        if (step == 1) return Vec::load(x + first);
        if (step == 2) {
            auto even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            return {_mm512_permutex2var_ps(Vec::load(x + first).v, even, Vec::load(x + first + W).v)};
        }
    }
    float some[W] = {};
    for (int i = 0; i < n; ++i)
        if (int64_t column = first + i * step; column >= 0 && column < limit) some[i] = x[column];
    return Vec::load(some);
}

/// Floats: columns first, first + step, … of a row.
void round_floats(PairOfUnits x, float* y, int64_t columns, int64_t first, int64_t step, int64_t limit) {
    for (int64_t i = 0; i < columns; i += W) {
        int n = columns - i < W ? static_cast<int>(columns - i) : W;
        int64_t column = first + i * step;
        round_side_by_side(columns_of(x.low, column, step, limit, n), columns_of(x.high, column, step, limit, n))
            .store_first(y + i, n);
    }
}

void round_blocks_of(BandJob const& j) {
    pair_band(
        j, W, 0, [](auto... row) __attribute__((always_inline)) {
            pair_blocks(
                row...,
                [](Vec low, Vec high, float* y) __attribute__((always_inline)) { round_to_pairs(low, high).store(y); });
        });
}
void round_floats_of(BandJob const& j) { pair_band(j, 1, 0, round_floats); }

void round_pairs(float const* even, float const* odd, float* pairs, int64_t count) {
    for (int64_t i = 0; i < count; i += W) {
        int left = count - i < W ? static_cast<int>(count - i) : W;
        Vec second = odd ? Vec::load_first(odd + i, left) : Vec::zero();
        round_side_by_side(Vec::load_first(even + i, left), second).store_first(pairs + i, left);
    }
}

constexpr TileIsa kRounded{.block = W,
                           .columns = kMaxColumns,
                           .rows = run_rows,
                           .band = round_blocks_of,
                           .planar_band = round_floats_of,
                           .channels = 2,
                           .rounded_band = copy_band<Block>,
                           .round_pairs = round_pairs};

}  // namespace

TileIsa const& tile_avx512bf16() { return kRounded; }

}  // namespace refactor::kernel
