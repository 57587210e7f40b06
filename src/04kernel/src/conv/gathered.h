#pragma once
#include "conv/geometry.h"

namespace refactor::kernel {

/// Sizes of a convolution of f64 as products: for each image and group W [rows, depth] times the windows [depth,
/// positions], of which a block is gathered into panels at a time.
struct GatheredShape {
    Geometry g;
    int64_t rows, depth, positions;
    int64_t block = 0;  ///< positions of a block: whole panels
    bool in_place;      ///< X is what would be gathered: one tap, no steps, no padding

    GatheredShape(Geometry const&, int64_t panel, int threads);
};

/// Positions beside each other in one row of the output, the first in column `lane` of a panel.
struct PositionRun {
    int64_t lane, count, at[3];
};

/// What one tap reads for a run: positions [begin, end) read elements a stride apart, from `offset` in their plane of X
/// on; the others read padding.
struct PositionReach {
    int64_t begin, end, offset;
};
PositionReach reach_of(Geometry const&, PositionRun const&, int64_t const (&tap)[3]);

/// Windows of the positions [first, first + count) of one group of channels at `x`, in panels of `panel` columns whose
/// last is as wide as the positions left, rounded up to whole vectors of `width`: [panel][channel][tap][position].
void gather_windows(GatheredShape const&, double const* x, int64_t first, int64_t count, int64_t panel, int64_t width,
                    double* target);

/// Why products of f64 do not take such a convolution, or nothing.
std::string why_not_gathered(Epilogue const&, Request const&, Isa isa);

/// What follows the sums in `count` positions of a channel: `residual` null, or beside `y`; the activation is None or
/// Relu.
void finish_positions(Epilogue const&, double bias, double const* residual, double* y, int64_t count);

}  // namespace refactor::kernel
