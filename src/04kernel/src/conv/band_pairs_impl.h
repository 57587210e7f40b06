#pragma once
// Bands whose units are made of two units of X, as pairs of numbers of bf16; include a wrapper first.
#include "conv/tile.h"

namespace refactor::kernel {
namespace {

/// A pair of neighbouring channels, or blocks of them, of the input; `high` null: there is none.
struct PairOfUnits {
    float const *low, *high;
};

/// Blocks: columns first, first + step, … of a row; `store(low, high, y)` stores a pair of vectors.
RG_SIMD void pair_blocks(PairOfUnits x, float* y, int64_t columns, int64_t first, int64_t step, int64_t limit,
                         auto&& store) {
    for (int64_t i = 0, column = first; i < columns; ++i, column += step, y += Vec::width) {
        if (column < 0 || column >= limit)
            store(Vec::zero(), Vec::zero(), y);
        else
            store(Vec::load(x.low + column * Vec::width),
                  x.high ? Vec::load(x.high + column * Vec::width) : Vec::zero(), y);
    }
}

/// `pair_row(units, y, columns, first, step, limit)` makes a row of columns, which take `size` floats each; `left_free`
/// floats lie between units.
RG_SIMD void pair_band(BandJob const& j, int64_t size, int64_t left_free, auto&& pair_row) {
    float* y = j.band;
    for (int64_t u = 0; u < j.units; ++u, y += left_free)
        for (int64_t d = 0; d < j.planes; ++d, y += j.skip) {
            int64_t z = j.plane_first + d * j.plane_step;
            for (int64_t r = 0; r < j.rows; ++r) {
                int64_t row = j.row_first + r * j.row_step;
                bool inside = z >= 0 && z < j.in_planes && row >= 0 && row < j.in_rows;
                float const* low = j.x + 2 * u * j.x_unit + z * j.x_plane + row * j.x_row;
                PairOfUnits x{low, 2 * u + 1 < j.x_units ? low + j.x_unit : nullptr};
                for (int64_t p = 0; p < j.phases; ++p, y += j.columns * size)
                    if (j.phase_mask >> p % 64 & 1)
                        pair_row(x, y, j.columns, j.column_first + p, j.column_step, inside ? j.in_columns : 0);
            }
        }
}

}  // namespace
}  // namespace refactor::kernel
