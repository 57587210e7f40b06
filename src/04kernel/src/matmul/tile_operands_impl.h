#pragma once
// Operands as tiles of bf16: rounded, or in three parts; include `product_impl.h` and what it asks for first.
#include "simd/tiles.h"
#ifndef RG_BF16_PAIRS
#include "simd/three_parts.h"
#endif

namespace refactor::kernel {
namespace {

constexpr int64_t kTileFloats = int64_t{kTileRows} * kTileColumns;
/// Of k in a tile.
constexpr int64_t kTileDepth = 32, kTilePairs = 16;
/// Bytes between rows of a tile of A.
constexpr int64_t kTileRow = 4 * kTilePairs;

constexpr int64_t tiles_of(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

/// Tiles of A: [tiles of rows][steps of k][parts].
template <int parts>
struct TilesOfRows {
    float* at;
    int64_t steps;

    static int64_t floats(int64_t rows, int64_t steps) {
        return tiles_of(rows, kTileRows) * steps * parts * kTileFloats;
    }
    RG_SIMD float* tile(int64_t tile, int64_t step) const { return at + (tile * steps + step) * parts * kTileFloats; }
};

#ifdef RG_BF16_PAIRS

/// Rows in pairs, or of `elements` floats each (not 0) that are rounded.
void copy_rows(float const* x, int64_t x_row, int64_t rows, int64_t pairs, int64_t elements,
               TilesOfRows<1> const& tiles) {
    for (int64_t i = 0; i < rows; ++i, x += x_row)
        for (int64_t p = 0, step = 0; p < pairs; p += kTilePairs, ++step) {
            float* y = tiles.tile(i / kTileRows, step) + i % kTileRows * kTilePairs;
            (elements ? first_pairs(x + 2 * p, smaller(kTileDepth, elements - 2 * p))
                      : load_part(x + p, static_cast<int>(smaller(kTilePairs, pairs - p))))
                .store(y);
        }
}

#else

/// `k` floats of each of `rows` rows; pairs are k and k + 16 of a step.
void split_rows(float const* x, int64_t x_row, int64_t rows, int64_t k, TilesOfRows<3> const& tiles) {
    for (int64_t i = 0; i < rows; ++i, x += x_row)
        for (int64_t p = 0, step = 0; p < k; p += kTileDepth, ++step) {
            float* y = tiles.tile(i / kTileRows, step) + i % kTileRows * kTilePairs;
            int low = static_cast<int>(smaller(kWidth, k - p)),
                high = static_cast<int>(smaller(kTileDepth, k - p) - low);
            store_parts(Vec::load_first(x + p, low), Vec::load_first(x + p + kWidth, high), y, kTileFloats);
        }
}

#endif

/// Multiplies a block by tiles in one of the two ways.
template <class Tiles>
void multiply_by_tiles(Block const& t) {
    TileRegisters registers(kTilePairs);
    registers.shape(kTileRows, kTileRows);
    Tiles tiles;
    multiply_blocks(t, tiles);
}

template <class Tiles>
constexpr TileFunctions kTileFunctions{multiply_by_tiles<Tiles>, Tiles::scratch, Tiles::tiles_of_a, Tiles::make_tiles};

}  // namespace
}  // namespace refactor::kernel
