#pragma once
#include <cstdint>

/// Bilinear samples of planes with vectors of 8 floats.
///
/// The two elements that a sample takes from one row lie side by side, so one load of 8 bytes brings both. Where they
/// are and their weights are worked out once for a block of positions and used for all channels.
namespace refactor::kernel {

/// 512 positions of two pairs: with the masks 20 KiB of L1.
constexpr int kBlockPairs = 1024;

/// Pair `k` of position `p` begins at element `start[k * step + p]`, where `step` is the number of positions rounded up
/// to 8. Weights and masks are in the order in which the kernel uses them: see `pair_slot`.
struct PairBlock {
    int32_t start[kBlockPairs];
    float weight[2 * kBlockPairs];
    uint32_t mask[2 * kBlockPairs];  ///< all ones, or zero for elements that do not count; used if `masked`
    bool masked;
};

constexpr int pair_step(int positions) { return (positions + 7) / 8 * 8; }

/// Where the weight of the first element of pair `i` (`k * step + p`) is; that of the second one follows. A vector
/// holds the positions 0 1 4 5 of eight, the next 2 3 6 7.
constexpr int pair_slot(int i) {
    constexpr int kSlots[]{0, 2, 8, 10, 4, 6, 12, 14};
    return i / 8 * 16 + kSlots[i % 8];
}

/// Places of a block in a plane of `height` x `width` elements; 2 <= width, and the plane has less than 2^31 elements.
struct PairPlaces {
    float const *row, *column;  ///< coordinates in elements; `pair_step(positions)` of them can be read
    float const* share;         ///< factors of the weights by position, or null
    int positions;
    int64_t height, width;
    bool border;  ///< places outside show the border instead of zeros
};

void make_pairs_avx2(PairPlaces const&, PairBlock&);
/// y[p] = sum over `pairs` of weight · element.
void blend_pairs_avx2(PairBlock const&, int pairs, int positions, float const* x, float* y);
/// Coordinates in elements of `count` points (column, row) of a grid; NaN counts as -1.
void grid_places_avx2(float const* grid, int64_t count, int64_t height, int64_t width, bool align_corners, float* row,
                      float* column);

}  // namespace refactor::kernel
