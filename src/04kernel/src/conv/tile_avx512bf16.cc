#define RG_BF16_PAIRS
// clang-format off: the first chooses the instructions of what follows.
#include "conv/tile_impl.h"
#include "simd/bf16_pairs.h"
// clang-format on

namespace refactor::kernel {
namespace {

/// A pair of neighbouring channels, or blocks of them, of the input; `high` null: there is none.
struct PairOfUnits {
    float const *low, *high;
};

/// Blocks: columns first, first + step, … of a row.
void round_blocks(PairOfUnits x, float* y, int64_t columns, int64_t first, int64_t step, int64_t limit) {
    for (int64_t i = 0, column = first; i < columns; ++i, column += step, y += W) {
        if (column < 0 || column >= limit)
            Vec::zero().store(y);
        else if (x.high)
            round_to_pairs(Vec::load(x.low + column * W), Vec::load(x.high + column * W)).store(y);
        else
            round_to_pairs(Vec::load(x.low + column * W), Vec::zero()).store(y);
    }
}

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

template <void (*round_row)(PairOfUnits, float*, int64_t, int64_t, int64_t, int64_t), int64_t size>
void round_band(BandJob const& j) {
    float* y = j.band;
    for (int64_t u = 0; u < j.units; ++u)
        for (int64_t d = 0; d < j.planes; ++d) {
            int64_t z = j.plane_first + d * j.plane_step;
            for (int64_t r = 0; r < j.rows; ++r) {
                int64_t row = j.row_first + r * j.row_step;
                bool inside = z >= 0 && z < j.in_planes && row >= 0 && row < j.in_rows;
                float const* low = j.x + 2 * u * j.x_unit + z * j.x_plane + row * j.x_row;
                PairOfUnits x{low, 2 * u + 1 < j.x_units ? low + j.x_unit : nullptr};
                for (int64_t p = 0; p < j.phases; ++p, y += j.columns * size)
                    if (j.phase_mask >> p % 64 & 1)
                        round_row(x, y, j.columns, j.column_first + p, j.column_step, inside ? j.in_columns : 0);
            }
        }
}

void round_pairs(float const* even, float const* odd, float* pairs, int64_t count) {
    for (int64_t i = 0; i < count; i += W) {
        int left = count - i < W ? static_cast<int>(count - i) : W;
        Vec second = odd ? Vec::load_first(odd + i, left) : Vec::zero();
        round_side_by_side(Vec::load_first(even + i, left), second).store_first(pairs + i, left);
    }
}

constexpr TileIsa kRounded{W, kMaxColumns, run_rows, round_band<round_blocks, W>, round_band<round_floats, 1>,
                           2, round_pairs};

}  // namespace

TileIsa const& tile_avx512bf16() { return kRounded; }

}  // namespace refactor::kernel
