#pragma once
// Products of pairs of bf16 by tiles (AMX), which add in f32; include `product_impl.h` and what it asks for first, and
// before that what emulates tiles, where they are.
//
// A is copied into tiles, [16 rows][16 dwords], B lies in panels: two tiles of rows and two of columns make four
// products, in 64 cycles for 32 k.
#include "matmul/tile_operands_impl.h"

namespace refactor::kernel {
namespace {

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

/// Two tiles of A and what of B they are multiplied with.
struct TilePair {
    float const *first, *second;  ///< of rows
    float const* b;
    int64_t b_row;  ///< floats between pairs of B
    int64_t steps;
    float const* last_b;  ///< not null: stands for B in the last step, `kPanel` floats a row
};

/// A·B of two tiles of rows (`kBoth`) and of columns (`kWide`) to `sums`, [32][kPanel].
template <bool kBoth, bool kWide>
RG_SIMD void add_products(TilePair const& t, Ahead& ahead, float* sums) {
    clear_sums<kBoth, kWide>();
    float const *first = t.first, *second = t.second, *b = t.b;
    int64_t const whole = t.last_b ? t.steps - 1 : t.steps, row = 4 * t.b_row;
    StoresNowAndThen stores;
    for (int64_t s = 0; s < whole; ++s) {
        ahead.prefetch(kTilePairs);
        add_pairs<kBoth, kWide>(first, second, kTileRow, b, row);
        stores.after((kBoth ? 2 : 1) * (kWide ? 2 : 1));
        first += kTileFloats, second += kTileFloats, b += kTilePairs * t.b_row;
    }
    if (t.last_b) add_pairs<kBoth, kWide>(first, second, kTileRow, t.last_b, 4 * kPanel);
    store_sums<kBoth, kWide>(sums, sums + kTileRows * kPanel, 4 * kPanel);
}

/// The same of all columns of a panel.
template <bool kBoth>
RG_SIMD void add_products(TilePair t, int64_t vectors, Ahead& ahead, float* sums) {
    for (int64_t v = 0; v < vectors; v += 2, t.b += 2 * kWidth, sums += 2 * kWidth) {
        if (v + 1 < vectors)
            add_products<kBoth, true>(t, ahead, sums);
        else
            add_products<kBoth, false>(t, ahead, sums);
        if (t.last_b) t.last_b += 2 * kWidth;
    }
}

/// A block by tiles, whose registers are configured meanwhile.
class ByRoundedTiles {
    TilesOfRows<1> a_{};
    int64_t steps_ = 0;
    alignas(64) float sums_[2 * kTileFloats * kVectors], last_[kTilePairs * kPanel];

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
    static int64_t scratch(int64_t block_m, int64_t block_k, bool shared) {
        return (shared ? 0 : tiles_of_a(block_m, block_k)) + block_k * kPanel;
    }
    /// `k` pairs.
    static int64_t tiles_of_a(int64_t m, int64_t k) { return TilesOfRows<1>::floats(m, tiles_of(k, kTilePairs)); }
    static void make_tiles(Block const& t, int64_t first, int64_t rows) {
        TilesOfRows<1> all{t.a_tiles, tiles_of(t.k, kTilePairs)};
        copy_rows(t.a + first * t.a_row, t.a_row, rows, t.k, t.elements, {all.tile(first / kTileRows, 0), all.steps});
    }
    void begin(Block& t, Block const& whole, Range const& r) {
        steps_ = tiles_of(r.k, kTilePairs);
        a_ = {whole.scratch, steps_};
        t.scratch = whole.scratch;
        if (whole.a_tiles) {
            a_ = {whole.a_tiles, tiles_of(whole.k, kTilePairs)};
            a_.at = a_.tile(r.row / kTileRows, r.depth / kTilePairs);
            return;
        }
        float const* a = whole.a + r.row * whole.a_row;
        bool rounds = whole.elements;
        copy_rows(a + (rounds ? 2 : 1) * r.depth, whole.a_row, r.rows, r.k, rounds ? elements_of(whole, r) : 0, a_);
        t.scratch += tiles_of_a(whole.block_m, r.k);
    }
    void multiply(Block const& t, Range const& r, int64_t j, float const* b, int64_t b_row, float const* next) {
        constexpr int64_t kBoth = 2 * kTileRows;
        int64_t const n = smaller(kPanel, t.n - j), wide = width_of(n), vectors = wide / kWidth;
        int64_t const passes = tiles_of(r.rows, kBoth);
        TilePair pair{nullptr, nullptr, b, b_row, steps_, nullptr};
        Ahead ahead{};
        if (int64_t pairs = r.k % kTilePairs) {
            float const* from = b + (r.k - pairs) * b_row;
            for (int64_t i = 0; i < kTilePairs; ++i)
                for (int64_t v = 0; v < wide; v += kWidth)
                    (i < pairs ? Vec::load(from + i * b_row + v) : Vec::zero()).store(last_ + i * kPanel + v);
            pair.last_b = last_;
        }
        if (next)
            ahead = {reinterpret_cast<char const*>(next),
                     tiles_of(kPanel * int64_t{sizeof(float)}, passes * tiles_of(vectors, 2))};
        for (int64_t i = 0; i < r.rows; i += kBoth) {
            int64_t const rows = smaller(kBoth, r.rows - i);
            pair.first = a_.tile(i / kTileRows, 0), pair.second = pair.first;
            if (rows > kTileRows) {
                pair.second = a_.tile(i / kTileRows + 1, 0);
                add_products<true>(pair, vectors, ahead, sums_);
            } else {
                add_products<false>(pair, vectors, ahead, sums_);
            }
            store(t, r, j, i, rows);
        }
    }
    void finish() const {}
};

}  // namespace
}  // namespace refactor::kernel
