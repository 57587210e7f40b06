#pragma once
// Products of pairs of bf16 by tiles (AMX), which add in f32; include `product_impl.h` and what it asks for first, and
// before that what emulates tiles, where they are.
//
// A is copied into tiles, [16 rows][16 dwords], if its rows are not such already; B lies in panels: two tiles of rows
// and two of columns make four products, in 64 cycles for 32 k.
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

/// Where tiles of A lie: among others, or in its rows.
struct TilesOfA {
    float const* at;
    int64_t tile, step;  ///< floats between tiles of rows, and of k
    int64_t row;         ///< bytes between rows of a tile

    static TilesOfA among(TilesOfRows<1> const& all) {
        return {all.at, all.steps * kTileFloats, kTileFloats, kTileRow};
    }
    static TilesOfA in_rows(float const* a, int64_t a_row) { return {a, kTileRows * a_row, kTilePairs, 4 * a_row}; }
};

/// Two tiles of A and what of B they are multiplied with.
struct TilePair {
    float const *first, *second;  ///< of rows
    int64_t a_step, a_row;        ///< as of `TilesOfA`
    float const* b;
    int64_t b_row;  ///< floats between pairs of B
    int64_t steps;
    float const* last_b;  ///< not null: stands for B in the last step, `kPanel` floats a row
};

/// Where sums are stored, `row` floats between rows.
struct TileSums {
    float* at;
    int64_t row;
    bool adds;  ///< to what is there

    float* second() const { return at + kTileRows * row; }
};

/// A·B of two tiles of rows (`kBoth`) and of columns (`kWide`).
template <bool kBoth, bool kWide>
RG_SIMD void add_products(TilePair const& t, Ahead& ahead, TileSums const& sums) {
    if (sums.adds)
        load_sums<kBoth, kWide>(sums.at, sums.second(), 4 * sums.row);
    else
        clear_sums<kBoth, kWide>();
    float const *first = t.first, *second = t.second, *b = t.b;
    int64_t const whole = t.last_b ? t.steps - 1 : t.steps, row = 4 * t.b_row;
    StoresNowAndThen stores;
    for (int64_t s = 0; s < whole; ++s) {
        ahead.prefetch(kTilePairs);
        add_pairs<kBoth, kWide>(first, second, t.a_row, b, row);
        stores.after((kBoth ? 2 : 1) * (kWide ? 2 : 1));
        first += t.a_step, second += t.a_step, b += kTilePairs * t.b_row;
    }
    if (t.last_b) add_pairs<kBoth, kWide>(first, second, t.a_row, t.last_b, 4 * kPanel);
    store_sums<kBoth, kWide>(sums.at, sums.second(), 4 * sums.row);
}

/// The same of all columns of a panel.
template <bool kBoth>
RG_SIMD void add_products(TilePair t, int64_t vectors, Ahead& ahead, TileSums sums) {
    for (int64_t v = 0; v < vectors; v += 2, t.b += 2 * kWidth, sums.at += 2 * kWidth) {
        if (v + 1 < vectors)
            add_products<kBoth, true>(t, ahead, sums);
        else
            add_products<kBoth, false>(t, ahead, sums);
        if (t.last_b) t.last_b += 2 * kWidth;
    }
}

/// Of rows of `n` sums, to `ProductBlock::maxima`.
RG_SIMD void find_maxima(TileSums const& sums, int64_t rows, int64_t n, float* maxima) {
    for (int64_t i = 0; i < rows; ++i, maxima += kWidth) {
        float const* x = sums.at + i * sums.row;
        Vec largest = Vec::load(maxima);
        int64_t j = 0;
        for (; j + kWidth <= n; j += kWidth) largest = max(Vec::load(x + j), largest);
        if (j < n) {
            int left = static_cast<int>(n - j);
            largest = max(select(first_lanes(left), Vec::load(x + j), Vec::set(-kInf)), largest);
        }
        largest.store(maxima);
    }
}

/// A block by tiles, whose registers are configured meanwhile.
class ByRoundedTiles {
    TilesOfA a_{};
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

    /// Whether sums of so many rows and columns are made in Y.
    static bool sums_in_place(Block const& t, int64_t rows, int64_t n) {
        if (!t.in_rows || t.alpha != 1 || t.bias || t.activation.kind != ActivationKind::None) return false;
        if (t.residual && t.residual != t.y) return false;
        return t.room_in_y || (rows % kTileRows == 0 && n % kWidth == 0);
    }
    TileSums sums_of(Block const& t, Range const& r, int64_t j, int64_t first, bool in_place) {
        if (!in_place) return {sums_, kPanel, false};
        return {t.y + (r.row + first) * t.y_row + j, t.y_row, t.residual || r.depth > 0};
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
        t.scratch = whole.scratch;
        float const* a = whole.a + r.row * whole.a_row;
        if (whole.in_rows) {
            a_ = TilesOfA::in_rows(a + r.depth, whole.a_row);
            return;
        }
        if (whole.a_tiles) {
            TilesOfRows<1> all{whole.a_tiles, tiles_of(whole.k, kTilePairs)};
            a_ = TilesOfA::among(all);
            a_.at = all.tile(r.row / kTileRows, r.depth / kTilePairs);
            return;
        }
        bool rounds = whole.elements;
        TilesOfRows<1> tiles{whole.scratch, steps_};
        copy_rows(a + (rounds ? 2 : 1) * r.depth, whole.a_row, r.rows, r.k, rounds ? elements_of(whole, r) : 0, tiles);
        a_ = TilesOfA::among(tiles);
        t.scratch += tiles_of_a(whole.block_m, r.k);
    }
    void multiply(Block const& t, Range const& r, int64_t j, float const* b, int64_t b_row, float const* next) {
        constexpr int64_t kBoth = 2 * kTileRows;
        int64_t const n = smaller(kPanel, t.n - j), wide = width_of(n), vectors = wide / kWidth;
        int64_t const passes = tiles_of(r.rows, kBoth);
        TilePair pair{nullptr, nullptr, a_.step, a_.row, b, b_row, steps_, nullptr};
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
            pair.first = a_.at + i / kTileRows * a_.tile, pair.second = pair.first;
            bool const in_place = sums_in_place(t, rows, n);
            TileSums const sums = sums_of(t, r, j, i, in_place);
            if (rows > kTileRows) {
                pair.second = pair.first + a_.tile;
                add_products<true>(pair, vectors, ahead, sums);
            } else {
                add_products<false>(pair, vectors, ahead, sums);
            }
            if (!in_place)
                store(t, r, j, i, rows);
            else if (t.maxima && r.depth + r.k >= t.k)
                find_maxima(sums, rows, n, t.maxima + (r.row + i) * kWidth);
        }
    }
    void finish() const {}
};

}  // namespace
}  // namespace refactor::kernel
