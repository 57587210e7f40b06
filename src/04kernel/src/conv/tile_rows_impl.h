#pragma once
// Rows of positions by tiles (AMX) of numbers of bf16; include what emulates them first, where they are.
//
// A band holds pairs of channels, [unit][row][column][16 pairs], so that 16 neighbouring positions of a unit are a tile
// of A where they lie; 16 pairs of channels by a block of output channels are a tile of B. Where rows of the band
// follow each other, tiles go on from one to the next through the columns between them, which are computed in vain: 2
// of 58 where that leaves no tile half empty.
#include "conv/tile_store_impl.h"
//
#include "simd/ahead.h"
#include "simd/tiles.h"

namespace refactor::kernel {
namespace {

/// Positions of a job: rows of `pitch`, of which the first `cols` are wanted, one after the other, or each for itself.
struct Positions {
    int64_t rows, cols, pitch;

    static Positions of(RowJob const& j) {
        int64_t const rows = j.rows, cols = j.cols, pitch = j.x_row / W;
        auto tiles = [](int64_t n) { return (n + kTileRows - 1) / kTileRows; };
        bool together = rows > 1 && tiles((rows - 1) * pitch + cols) <= rows * tiles(cols);
        return {rows, cols, together ? pitch : 0};
    }
    /// That tiles walk through before they start anew.
    int64_t run() const { return pitch ? (rows - 1) * pitch + cols : cols; }
    int64_t runs() const { return pitch ? 1 : rows; }
};

/// Bytes of weights that are asked for ahead: L2 has to keep them beside those that are read and the band.
constexpr int64_t kMostAhead = 512 << 10;

template <bool kBoth, int B>
RG_SIMD void add_taps_of(RowJob const& j, float const* x, Ahead ahead, float* sums) {
    constexpr int64_t kColumn = 4 * W, kRow = B * 4 * W;
    clear_sums<kBoth, B == 2>();
    float const* w = j.w;
    int64_t const taps = j.tap_count;
    for (int64_t t = 0; t < taps; ++t, w += B * W * W) {
        ahead.prefetch(W);
        float const* from = x + (j.taps ? j.taps[t] : t * j.tap_step);
        add_pairs<kBoth, B == 2>(from, from + kTileRows * W, kColumn, w, kRow);
    }
    store_sums<kBoth, B == 2>(sums, sums + kTileRows * B * W, kRow);
}

/// `Q` neighbouring positions, [position][block].
template <int B, int Q>
RG_SIMD void store_positions(RowJob const& j, float const* sums, float* y, float const* residual) {
    Vec acc[B][1][Q];
    begin(j, y, acc);
#pragma GCC unroll 2
    for (int b = 0; b < B; ++b)
#pragma GCC unroll 4
        for (int q = 0; q < Q; ++q) acc[b][0][q] = acc[b][0][q] + Vec::load(sums + (q * B + b) * W);
    store(j, acc, y, residual);
}

/// `count` neighbouring positions.
template <int B>
RG_SIMD void store_run(RowJob const& j, float const* sums, float* y, float const* residual, int64_t count) {
    constexpr int kAtOnce = 4;
    for (int64_t n; count > 0; count -= n) {
        n = count >= kAtOnce ? kAtOnce : 1;
        if (n == kAtOnce)
            store_positions<B, kAtOnce>(j, sums, y, residual);
        else
            store_positions<B, 1>(j, sums, y, residual);
        sums += n * B * W, y += n * j.y_step;
        if (residual) residual += n * j.y_step;
    }
}

/// Those of `count` positions from position `first` on that are wanted, of a run that begins with row `row`.
template <int B>
void store_tile_of(RowJob const& j, Positions const& p, int64_t row, int64_t first, int64_t count, float const* sums) {
    for (int64_t i = first, end = first + count; i < end;) {
        int64_t const down = p.pitch ? i / p.pitch : 0, col = i - down * p.pitch;
        int64_t const at = (row + down) * j.y_row + col * j.y_step;
        store_run<B>(j, sums + (i - first) * B * W, j.y + at, j.residual ? j.residual + at : nullptr,
                     p.cols - col < end - i ? p.cols - col : end - i);
        i = p.pitch ? (down + 1) * p.pitch : end;
    }
}

template <int B>
void run_tiles(RowJob const& j) {
    constexpr int64_t kBoth = 2 * kTileRows;
    auto const p = Positions::of(j);
    int64_t const run = p.run(), all = p.runs() * ((run + kBoth - 1) / kBoth);
    constexpr int64_t kRow = B * 4 * W;
    bool const more = j.ahead && j.tap_count * W * kRow <= kMostAhead;
    Ahead ahead{reinterpret_cast<char const*>(j.ahead), more ? (kRow + all - 1) / all : 0};
    alignas(64) float sums[kBoth * B * W];
    for (int64_t row = 0; row < p.runs(); ++row)
        for (int64_t first = 0; first < run; first += kBoth) {
            int64_t const count = run - first < kBoth ? run - first : kBoth;
            float const* x = j.x + row * j.x_row + first * W;
            if (count > kTileRows)
                add_taps_of<true, B>(j, x, ahead, sums);
            else
                add_taps_of<false, B>(j, x, ahead, sums);
            ahead.from += ahead.step * W * j.tap_count;
            store_tile_of<B>(j, p, row, first, count, sums);
        }
}

[[maybe_unused]] void run_rows_by_tiles(RowJob const& j) {
    TileRegisters registers(W);
    registers.shape(kTileRows, kTileRows);
    if (j.blocks == 2)
        run_tiles<2>(j);
    else
        run_tiles<1>(j);
}

}  // namespace
}  // namespace refactor::kernel
