#pragma once
// Loops of first layers by tiles; include what emulates tiles first, where they are.
#include "conv/first_tiles.h"
//
#include "conv/tile_rows_impl.h"
//
#include "simd/bf16_pairs.h"

namespace refactor::kernel {
namespace {

/// Sixteen columns of up to four channels, side by side.
RG_SIMD void store_columns(FirstBand const& b, float const* x, int64_t column, int lanes, uint16_t* y) {
    auto channel = [&](int64_t c) __attribute__((always_inline)) {
        return c < b.channels ? Vec::load_first(x + c * b.plane + column, lanes) : Vec::zero();
    };
    Vec even = round_side_by_side(channel(0), channel(1));
    if (b.held == 2) return even.store_first(reinterpret_cast<float*>(y), lanes);
    Vec odd = round_side_by_side(channel(2), channel(3));
    auto low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    auto high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    auto* to = reinterpret_cast<float*>(y);
    int first = 2 * lanes < W ? 2 * lanes : W;
    Vec{_mm512_permutex2var_ps(even.v, low, odd.v)}.store_first(to, first);
    Vec{_mm512_permutex2var_ps(even.v, high, odd.v)}.store_first(to + W, 2 * lanes - first);
}

void fill_first_band(FirstBand const& b) {
    for (int64_t i = 0; i < b.count; ++i) {
        uint16_t* y = b.band + i * b.band_row;
        int64_t const row = b.row + i * b.step, inside = row >= 0 && row < b.rows ? b.columns : 0;
        int64_t const begin = b.pad * b.held, end = begin + inside * b.held;
        for (int64_t j = 0; j < begin; ++j) y[j] = 0;
        for (int64_t column = 0; column < inside; column += W) {
            int lanes = static_cast<int>(inside - column < W ? inside - column : W);
            store_columns(b, b.x + row * b.columns, column, lanes, y + begin + column * b.held);
        }
        for (int64_t j = end; j < b.band_row; ++j) y[j] = 0;
    }
}

/// Positions from `first` on of one chunk of `B` blocks.
template <bool kBoth, int B>
RG_SIMD void add_window(FirstRow const& r, int64_t first, float const* w, PendingSums<B, 1>& pending, float* sums) {
    constexpr int64_t kRow = B * 4 * W;
    int64_t const step = 2 * r.position;
    clear_sums<kBoth, B == 2>();
    uint16_t const* from = r.x + first * r.position;
    int64_t const times = (PendingSums<B, 1>::kTimes + r.window_rows - 1) / r.window_rows;
    for (int64_t i = 0; i < r.window_rows; ++i, from += r.window_row) {
        uint16_t const* part = from;
        for (int64_t p = 0; p < r.parts; ++p, part += 2 * r.dwords, w += r.dwords * B * W)
            add_pairs<kBoth, B == 2>(part, part + kTileRows * r.position, step, w, kRow);
        if (pending.any()) pending.store_a_few(times);
    }
    pending.store_all();
    store_sums<kBoth, B == 2>(sums, sums + kTileRows * B * W, kRow);
}

template <int B>
void run_first_chunk(FirstRow const& r, RowJob const& j, float const* w) {
    constexpr int64_t kBoth = 2 * kTileRows;
    alignas(64) float sums[2][kBoth * B * W];
    TilePositions const p{1, j.cols, 0};
    PendingSums<B, 1> pending(j, p);
    int at = 0;
    for (int64_t first = 0; first < p.cols; first += kBoth, at ^= 1) {
        int64_t const count = p.cols - first < kBoth ? p.cols - first : kBoth;
        if (count > kTileRows)
            add_window<true, B>(r, first, w, pending, sums[at]);
        else
            add_window<false, B>(r, first, w, pending, sums[at]);
        pending.begin_tiles(sums[at], nullptr, 0, first, count);
    }
    pending.store_all();
}

void run_first_rows(FirstRow const* rows, int64_t count) {
    TileRegisters registers(rows->dwords);
    registers.shape(kTileRows, kTileRows);
    for (FirstRow const* r = rows; r < rows + count; ++r) {
        RowJob j = r->job;
        float const* w = r->w;
        int64_t const units = j.rounded ? 1 : 2;
        for (int64_t block = 0; block < r->blocks; block += 2) {
            bool const two = block + 1 < r->blocks;
            j.blocks = two ? 2 : 1;
            j.last_lanes = block + j.blocks == r->blocks ? r->last_lanes : W;
            (two ? run_first_chunk<2> : run_first_chunk<1>)(*r, j, w);
            w += r->window_rows * r->parts * r->dwords * j.blocks * W;
            j.y += units * j.y_block;
            if (j.bias) j.bias += 2 * W;
            if (j.residual) j.residual += units * j.y_block;
        }
    }
}

constexpr FirstTiles kFirstTiles{fill_first_band, run_first_rows};

}  // namespace
}  // namespace refactor::kernel
