#pragma once
// Rows of positions by tiles (AMX) of numbers of bf16, rounded or in three parts; include what emulates them first,
// where they are.
//
// A band holds pairs of channels, [unit][parts][row][column][16 pairs], so that 16 neighbouring positions of a unit are
// a tile of A where they lie; 16 pairs of channels by a block of output channels are a tile of B. Where rows of the
// band follow each other, tiles go on from one to the next through the columns between them, which are computed in
// vain: 2 of 58 where that leaves no tile half empty.
//
// Products of three parts are those of f32 (`three_parts.h`), whose weights become panels meanwhile.
#include "conv/panels_in_parts_impl.h"
#include "conv/pending_sums_impl.h"
//
#include "simd/ahead.h"
#include "simd/tiles.h"

#include <utility>

namespace refactor::kernel {
namespace {

/// Bytes of weights that are asked for ahead: L2 has to keep them beside those that are read and the band.
constexpr int64_t kMostAhead = 512 << 10;

/// Rounded pairs: weights are panels as they are.
template <int B>
class RoundedTaps {
    RowJob const& j_;
    Ahead ahead_;

public:
    static constexpr int parts = 1;
    static constexpr int64_t kRow = B * 4 * W;

    /// `tiles`: pairs of tiles of rows that will be multiplied.
    RoundedTaps(RowJob const& j, int64_t tiles) : j_(j), ahead_{reinterpret_cast<char const*>(j.ahead), 0} {
        if (j.ahead && j.tap_count * W * kRow <= kMostAhead) ahead_.step = (kRow + tiles - 1) / tiles;
    }
    /// Adds the products of positions from `x` on.
    template <bool kBoth>
    RG_SIMD void add(float const* x, PendingSums<B, 1>& pending) {
        constexpr int64_t kColumn = 4 * W;
        float const* w = j_.w;
        int64_t const taps = j_.tap_count;
        int64_t const times = taps > 0 ? (PendingSums<B, 1>::kTimes + taps - 1) / taps : 0;
        StoresNowAndThen stores;
        for (int64_t t = 0; t < taps; ++t, w += B * W * W) {
            ahead_.prefetch(W);
            float const* from = x + (j_.taps ? j_.taps[t] : t * j_.tap_step);
            add_pairs<kBoth, B == 2>(from, from + kTileRows * W, kColumn, w, kRow);
            if (pending.any()) pending.store_a_few(times);
            stores.after((kBoth ? 2 : 1) * B);
        }
    }
    void finish() {}
};

/// Numbers in parts, whose weights become panels meanwhile.
template <int B>
class SplitTaps {
    RowJob const& j_;
    PanelsInParts& panels_;
    PanelMaker<B> next_;
    int64_t at_once_ = 0;  ///< channels of the next panel that are made at a time

    static bool has_next(RowJob const& j) { return j.following && j.following->blocks == B && j.following->w != j.w; }
    /// Makes what is missing of this job's panel, and what is to make the next one.
    static PanelMaker<B> prepare(RowJob const& j) {
        auto& p = *j.panels;
        if (p.now_w != j.w) {
            auto done = p.next_w == j.w ? p.next_steps : 0;
            std::swap(p.now, p.next);
            p.now_w = j.w, p.next_w = nullptr;
            PanelMaker<B>(j, p.now, done).finish();
        }
        if (!has_next(j)) return {j, p.next, 0};
        if (p.next_w != j.following->w) p.next_w = j.following->w, p.next_steps = 0;
        return {*j.following, p.next, p.next_steps};
    }

public:
    static constexpr int parts = kParts;

    /// `passes`: pairs of tiles of rows.
    SplitTaps(RowJob const& j, int64_t passes) : j_(j), panels_(*j.panels), next_(prepare(j)) {
        // A step of a pair of tiles has six moments.
        if (has_next(j)) at_once_ = (W + 6 * passes - 1) / (6 * passes);
    }
    template <bool kBoth>
    RG_SIMD void add(float const* x, PendingSums<B, kParts>& pending) {
        constexpr int64_t kColumn = 4 * W, kPart = B * W * W;
        float const* w = panels_.now;
        int64_t const taps = j_.unit_taps, units = j_.tap_count / taps;
        StoresNowAndThen stores;
        for (int64_t unit = 0, tap = 0; unit < units; w += kParts * kPart) {
            float const* from = x + j_.taps[unit * taps + tap];
            bool other = false;
            TilesInParts const tiles{from, from + kTileRows * W, kColumn, j_.x_part, w, B * 4 * W, kPart};
            add_parts<kBoth, B == 2>(
                tiles, [&]() __attribute__((always_inline)) {
                    if ((other = !other)) {
                        if (pending.any()) pending.store_a_few();
                    } else {
                        if (at_once_ && next_.any()) next_.make(at_once_);
                    }
                });
            stores.after(kProductsOfParts * (kBoth ? 2 : 1) * B);
            if (++tap == taps) tap = 0, unit += 2;
        }
    }
    void finish() {
        if (at_once_ == 0) return;
        next_.finish_step();
        panels_.next_steps = next_.steps();
    }
};

template <bool kBoth, int B, class Taps>
RG_SIMD void add_taps_of(Taps& taps, float const* x, PendingSums<B, Taps::parts>& pending, float* sums) {
    clear_sums<kBoth, B == 2>();
    taps.template add<kBoth>(x, pending);
    pending.store_all();
    store_sums<kBoth, B == 2>(sums, sums + kTileRows * B * W, B * 4 * W);
}

template <int B, class Taps>
void run_tiles(RowJob const& j) {
    constexpr int64_t kBoth = TilePositions::kPair;
    auto const p = TilePositions::of(j.rows, j.cols, j.x_row / W);
    int64_t const run = p.run();
    Taps taps(j, p.pairs());
    alignas(64) float sums[2][kBoth * B * W];
    PendingSums<B, Taps::parts> pending(j, p);
    int at = 0;
    for (int64_t row = 0; row < p.runs(); ++row)
        for (int64_t first = 0; first < run; first += kBoth, at ^= 1) {
            int64_t const count = run - first < kBoth ? run - first : kBoth;
            float const* x = j.x + row * j.x_row + first * W;
            if (count > kTileRows)
                add_taps_of<true, B>(taps, x, pending, sums[at]);
            else
                add_taps_of<false, B>(taps, x, pending, sums[at]);
            pending.begin_tiles(sums[at], x, row, first, count);
        }
    pending.store_all();
    taps.finish();
}

template <template <int> class Taps>
void run_rows_by_tiles(RowJob const& j) {
    TileRegisters registers(W);
    registers.shape(kTileRows, kTileRows);
    if (j.blocks == 2)
        run_tiles<2, Taps<2>>(j);
    else
        run_tiles<1, Taps<1>>(j);
}

}  // namespace
}  // namespace refactor::kernel
