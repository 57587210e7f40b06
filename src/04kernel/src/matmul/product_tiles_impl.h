#pragma once
// Products of floats by tiles (AMX), which multiply numbers of bf16 and add in f32; include `product_impl.h` and what
// it asks for first, and before that what emulates tiles, where they are.
//
// Operands that may be rounded are one number of bf16 each. Others are the sum of three: 24 bits of a float in three
// times 8, of whose nine products the six largest are added. What is left out is at most 2^-23 of a product, 2^-27 of
// most, and tiles add 32 products before they add to a sum, so that results are closer to the exact ones than those of
// multiply-adds. Numbers that are no sum of three (infinities, what bf16 rounds to one) leave sums that are not finite,
// which vectors then compute again; parts below 2^-126 are zero to tiles.
//
// A is copied into tiles, [16 rows][16 dwords], B lies in panels: two tiles of rows and two of columns make four
// products, in 64 cycles for 32 k.
#include "matmul/tile_operands_impl.h"

namespace refactor::kernel {
namespace {

bool all_finite(float const* sums, int64_t rows, int64_t vectors) {
    Vec const largest = Vec::set(__FLT_MAX__);
    Mask finite = first_lanes(kWidth);
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t v = 0; v < vectors; ++v)
            finite = finite & (abs(Vec::load(sums + i * kPanel + v * kWidth)) <= largest);
    return finite.m == first_lanes(kWidth).m;
}

/// Stores rows of sums; `tail` columns of the last vector.
template <int vectors>
void finish_rows(float const* sums, int64_t rows, float* y, int64_t y_row, int tail, Finish f) {
    constexpr int kAtOnce = 2;
    auto some = [&](auto& c) __attribute__((always_inline)) {
        constexpr int count = sizeof c / sizeof c[0];
#pragma GCC unroll 2
        for (int r = 0; r < count; ++r)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[r][v] = Vec::load(sums + r * kPanel + v * kWidth);
        store_tile(c, y, y_row, tail, f);
        sums += count * kPanel, y += count * y_row;
        if (f.residual) f.residual += count * y_row;
    };
    for (; rows >= kAtOnce; rows -= kAtOnce) {
        Vec c[kAtOnce][vectors];
        some(c);
    }
    if (rows) {
        Vec c[1][vectors];
        some(c);
    }
}

RG_SIMD void finish_rows(float const* sums, int64_t rows, int vectors, float* y, int64_t y_row, int tail,
                         Finish const& f) {
    switch (vectors) {
        case 1:
            return finish_rows<1>(sums, rows, y, y_row, tail, f);
        case 2:
            return finish_rows<2>(sums, rows, y, y_row, tail, f);
        case 3:
            return finish_rows<3>(sums, rows, y, y_row, tail, f);
        default:
            return finish_rows<4>(sums, rows, y, y_row, tail, f);
    }
}

/// What is done while tiles multiply.
struct Meanwhile {
    Ahead ahead;  ///< wanted in L2 next
#ifndef RG_BF16_PAIRS
    PanelInParts& panel;
    int64_t vectors;  ///< of the next panel, which are split with each two products
#endif
};

/// Two tiles of A and what of B they are multiplied with.
struct TilePair {
    float const *first, *second;  ///< of rows
    float const* b;
    int64_t b_row;  ///< floats between pairs of B
    int64_t steps;
    float const* last_b;  ///< not null: stands for B in the last step, `kPanel` floats a row
};

/// A·B of two tiles of rows (`kBoth`) and of columns (`kWide`) to `sums`, [32][kPanel].
template <int parts, bool kBoth, bool kWide>
RG_SIMD void add_products(TilePair const& t, Meanwhile& meanwhile, float* sums) {
    clear_sums<kBoth, kWide>();
    float const *first = t.first, *second = t.second, *b = t.b;
    int64_t const whole = t.last_b ? t.steps - 1 : t.steps, row = 4 * t.b_row;
    constexpr int kTiles = (kBoth ? 2 : 1) * (kWide ? 2 : 1);
    StoresNowAndThen stores;
    for (int64_t s = 0; s < whole; ++s) {
        if constexpr (parts == 1) {
            meanwhile.ahead.prefetch(kTilePairs);
            add_pairs<kBoth, kWide>(first, second, kTileRow, b, row);
            stores.after(kTiles);
        } else {
#ifndef RG_BF16_PAIRS
            add_parts<kBoth, kWide>({first, second, kTileRow, kTileFloats, b, row, kTilePairs * t.b_row},
                                    [&]() __attribute__((always_inline)) {
                                        for (int64_t i = meanwhile.vectors; i > 0; --i) meanwhile.panel.split_vector();
                                    });
            stores.after(kProductsOfParts * kTiles);
#endif
        }
        first += parts * kTileFloats, second += parts * kTileFloats, b += parts * kTilePairs * t.b_row;
    }
    if (parts == 1 && t.last_b) add_pairs<kBoth, kWide>(first, second, kTileRow, t.last_b, 4 * kPanel);
    constexpr int64_t kRow = 4 * kPanel;
    store_sums<kBoth, kWide>(sums, sums + kTileRows * kPanel, kRow);
}

/// The same of all columns of a panel.
template <int parts, bool kBoth>
RG_SIMD void add_products(TilePair t, int64_t vectors, Meanwhile& meanwhile, float* sums) {
    for (int64_t v = 0; v < vectors; v += 2, t.b += 2 * kWidth, sums += 2 * kWidth) {
        if (v + 1 < vectors)
            add_products<parts, kBoth, true>(t, meanwhile, sums);
        else
            add_products<parts, kBoth, false>(t, meanwhile, sums);
        if (t.last_b) t.last_b += 2 * kWidth;
    }
}

/// A block by tiles, whose registers are configured meanwhile.
template <int parts>
class ByTiles {
    TilesOfRows<parts> a_{};
#ifndef RG_BF16_PAIRS
    PanelInParts panel_, other_;  // what is multiplied with, and the next
#endif
    alignas(64) float sums_[2 * kTileFloats * kVectors], last_[parts == 1 ? kTilePairs * kPanel : 1];

    RG_SIMD int64_t steps_of(Range const& r) const { return tiles_of(r.k, parts == 1 ? kTilePairs : kTileDepth); }

#ifndef RG_BF16_PAIRS
    /// Splits a panel, unless that has been done, and prepares to split the one behind it.
    void split(Block const& t, Range const& r, int64_t j, float const* b, int64_t b_row) {
        int64_t const n = smaller(kPanel, t.n - j), wide = width_of(n);
        int64_t first = 0;
        if (other_.b == b) {
            other_.flush();
            float* y = panel_.y;
            panel_ = other_, other_.y = y, first = panel_.steps;
        }
        split_panel(b, b_row, first, r.k, n, wide, panel_.y);
        other_.b = nullptr, other_.left = 0;
        if (t.source == ProductSource::Packed && j + kPanel < t.n)
            other_.begin(panel_at(t, j + kPanel, r.depth), r.k, width_of(smaller(kPanel, t.n - j - kPanel)));
    }
#endif

    /// What has been made for `rows` rows from row `first` of the range on.
    void store(Block const& t, Range const& r, int64_t j, int64_t first, int64_t rows) const {
        bool after;
        Finish f = finish_of(t, after);
        f.load = r.depth > 0, f.last = r.depth + r.k >= t.k;
        int64_t const n = smaller(kPanel, t.n - j), at = (r.row + first) * t.y_row + j;
        int vectors = static_cast<int>(width_of(n) / kWidth), tail = static_cast<int>(n - (vectors - 1) * kWidth);
        if (f.bias && !f.scalar_bias) f.bias += j;
        if (f.residual) f.residual += at;
        finish_rows(sums_, rows, vectors, t.y + at, t.y_row, tail, f);
        if (after && f.last)
            activate_block(t, t.y + at, t.residual && t.residual_last ? t.residual + at : nullptr, rows, n);
    }

public:
    void begin(Block& t, Block const& whole, Range const& r) {
        a_ = {whole.scratch, steps_of(r)};
        float const* a = whole.a + r.row * whole.a_row;
#ifdef RG_BF16_PAIRS
        bool rounds = whole.elements;
        copy_rows(a + (rounds ? 2 : 1) * r.depth, whole.a_row, r.rows, r.k, rounds ? elements_of(whole, r) : 0, a_);
#else
        split_rows(a + r.depth, whole.a_row, r.rows, r.k, a_);
#endif
        t.scratch = whole.scratch + a_.floats(whole.block_m);
#ifndef RG_BF16_PAIRS
        panel_ = other_ = {};
        for (auto* panel : {&panel_, &other_})
            panel->y = t.scratch, t.scratch += parts * a_.steps * kTilePairs * kPanel;
#endif
    }

    void multiply(Block const& t, Range const& r, int64_t j, float const* b, int64_t b_row, float const* next) {
        constexpr int64_t kBoth = 2 * kTileRows;
        int64_t const n = smaller(kPanel, t.n - j), wide = width_of(n), vectors = wide / kWidth;
        int64_t const passes = tiles_of(r.rows, kBoth);
        TilePair pair{nullptr, nullptr, b, b_row, a_.steps, nullptr};
#ifndef RG_BF16_PAIRS
        split(t, r, j, b, b_row);
        pair.b = panel_.y, pair.b_row = wide;
        // Of four products, or fewer, of which there are six.
        int64_t const moments = passes * tiles_of(vectors, 2) * a_.steps * 12;
        Meanwhile meanwhile{{}, other_, tiles_of(other_.steps * kPanel, moments)};
#else
        Meanwhile meanwhile{{}};
        if (int64_t pairs = r.k % kTilePairs) {
            float const* from = b + (r.k - pairs) * b_row;
            for (int64_t i = 0; i < kTilePairs; ++i)
                for (int64_t v = 0; v < wide; v += kWidth)
                    (i < pairs ? Vec::load(from + i * b_row + v) : Vec::zero()).store(last_ + i * kPanel + v);
            pair.last_b = last_;
        }
#endif
        if (next)
            meanwhile.ahead = {reinterpret_cast<char const*>(next),
                               tiles_of(kPanel * int64_t{sizeof(float)}, passes * tiles_of(vectors, 2))};
        for (int64_t i = 0; i < r.rows; i += kBoth) {
            int64_t const rows = smaller(kBoth, r.rows - i);
            pair.first = a_.tile(i / kTileRows, 0), pair.second = pair.first;
            if (rows > kTileRows) {
                pair.second = a_.tile(i / kTileRows + 1, 0);
                add_products<parts, true>(pair, vectors, meanwhile, sums_);
            } else {
                add_products<parts, false>(pair, vectors, meanwhile, sums_);
            }
            if constexpr (parts > 1)
                if (!all_finite(sums_, rows, vectors)) {
                    multiply_panel(t, {r.row + i, rows, r.depth, r.k}, j, b, b_row);
                    continue;
                }
            store(t, r, j, i, rows);
        }
    }
};

/// What `multiply_by_tiles` needs for a block.
template <int parts>
int64_t tile_scratch(int64_t block_m, int64_t block_k) {
    int64_t const steps = tiles_of(block_k, parts == 1 ? kTilePairs : kTileDepth);
    int64_t const a = tiles_of(block_m, kTileRows) * steps * parts * kTileFloats;
    return a + (parts == 1 ? 0 : 2 * parts * steps * kTilePairs * kPanel) + block_k * kPanel;
}

template <int parts>
void multiply_by_tiles(Block const& t) {
    TileRegisters registers(kTilePairs);
    registers.shape(kTileRows, kTileRows);
    ByTiles<parts> tiles;
    multiply_blocks(t, tiles);
}

}  // namespace
}  // namespace refactor::kernel
