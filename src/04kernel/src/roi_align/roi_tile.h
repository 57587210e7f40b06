#pragma once
#include "grid_sample/pairs.h"

#include <cstdint>

namespace refactor::kernel {

/// Widest region, in elements, and most taps of rows that a tile is made for: 16 and 12 KiB.
constexpr int64_t kRoiWidth = 4096, kRoiRows = 1024;

/// One region for some channels. A mean over samples is a sum over rows of sums over columns: the rows of a bin are
/// added up first, with vectors along the width of the region; the columns of all bins are pairs of that sum.
struct RoiTile {
    float const* x;  ///< first element of the region's columns in row 0 of the first channel
    float* y;
    int64_t plane, channels, bins[2], width;
    int64_t const* first;   ///< by bin of rows, and their number at the end: which taps are its
    int64_t const* offset;  ///< of a tap: row · elements of a row
    float const* weight;
    PairBlock const* columns;  ///< `samples` pairs for each of bins[1] positions
    int samples;
};

void roi_tile_avx2(RoiTile const&);

}  // namespace refactor::kernel
