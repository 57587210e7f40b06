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

    RG_SIMD float* tile(int64_t tile, int64_t step) const { return at + (tile * steps + step) * parts * kTileFloats; }
    RG_SIMD int64_t floats(int64_t rows) const { return tiles_of(rows, kTileRows) * steps * parts * kTileFloats; }
};

#ifdef RG_BF16_PAIRS

/// Rows in pairs, or of `elements` floats each (not 0) that are rounded.
void copy_rows(float const* x, int64_t x_row, int64_t rows, int64_t pairs, int64_t elements,
               TilesOfRows<1> const& tiles) {
    for (int64_t i = 0; i < rows; ++i, x += x_row)
        for (int64_t p = 0, step = 0; p < pairs; p += kTilePairs, ++step) {
            float* y = tiles.tile(i / kTileRows, step) + i % kTileRows * kTilePairs;
            (elements ? round_some(x + 2 * p, smaller(kTileDepth, elements - 2 * p))
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

/// What a panel that is split is asked for before it is needed, in floats: from L3 it comes no sooner by itself.
constexpr int64_t kSplitAhead = 1024;

/// From `first` of the steps on, a panel [k][n] becomes [steps][parts][16 pairs][wide], zeros behind k.
void split_panel(float const* b, int64_t b_row, int64_t first, int64_t k, int64_t n, int64_t wide, float* y) {
    int64_t const part = kTilePairs * wide;
    for (int64_t step = first; step * kTileDepth < k; ++step)
        for (int64_t i = 0; i < kTilePairs; ++i) {
            int64_t const p = step * kTileDepth + i, q = p + kTilePairs;
            for (int64_t v = 0; v < wide; v += kWidth) {
                int lanes = static_cast<int>(smaller(kWidth, n - v));
                auto row = [&](int64_t at) __attribute__((always_inline)) {
                    return at < k ? load_part(b + at * b_row + v, lanes) : Vec::zero();
                };
                store_parts(row(p), row(q), y + 3 * step * part + i * wide + v, part);
            }
        }
}

/// Whole steps of a packed panel, split a vector at a time.
struct PanelInParts {
    float const* b = nullptr;  ///< the panel
    float* y = nullptr;
    int64_t steps = 0, part = 0;  ///< that are split, or will be; floats of a part of a step
    float const* from = nullptr;
    float* to = nullptr;
    int64_t columns = 0, left = 0;  ///< floats of a part of this step that are left; steps with it

    void begin(float const* panel, int64_t k, int64_t wide) {
        b = from = panel, to = y, left = steps = k / kTileDepth, part = columns = kTilePairs * wide;
    }
    RG_SIMD void split_vector() {
        if (left == 0) return;
        // Of two lines that lie side by side the processor brings the other.
        if (columns % (2 * kWidth) == 0)
            __builtin_prefetch(from + kSplitAhead, 0, 2), __builtin_prefetch(from + part + kSplitAhead, 0, 2);
        store_parts(Vec::load(from), Vec::load(from + part), to, part);
        from += kWidth, to += kWidth;
        if ((columns -= kWidth) == 0) columns = part, --left, from += part, to += 2 * part;
    }
    void flush() {
        while (left > 0) split_vector();
    }
};

#endif

}  // namespace
}  // namespace refactor::kernel
