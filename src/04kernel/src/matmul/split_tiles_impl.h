#pragma once
// Products of f32 by tiles (AMX) of numbers of bf16; include `product_impl.h` and what it asks for first, and before
// that what emulates tiles, where they are.
//
// Operands are sums of three numbers: 24 bits of a float in three times 8, of whose nine products the six largest are
// added. What is left out is at most 2^-23 of a product, 2^-27 of most, and tiles add 32 products before they add to a
// sum, so that results are closer to the exact ones than those of multiply-adds. Numbers that are no sum of three
// (infinities, NaN) leave sums that are not finite, which vectors then compute again; parts below 2^-126 are zero to
// tiles.
//
// A is copied into tiles, [16 rows][16 dwords]. Two vectors of columns of B become tiles while the two before them are
// multiplied with all rows, and sums are stored: tiles leave vectors idle, if these come few at a time. (Pieces of k
// that L1 keeps, with sums that go through memory, took 10 to 20 % longer.)
#include "matmul/tile_operands_impl.h"

#include <utility>

namespace refactor::kernel {
namespace {

/// Asked for ahead, in rows of B: from L3 they come no sooner by themselves.
constexpr int64_t kRowsOfBAhead = 64;

/// Up to two vectors of columns of B.
struct ColumnsOfB {
    float const* b = nullptr;       ///< null: none
    int64_t row = 0, k = 0, n = 0;  ///< floats between rows; rows; columns

    RG_SIMD int64_t vectors() const { return n > kWidth ? 2 : 1; }
};

/// Makes tiles of columns of B, some rows at a time: [steps][parts][16 pairs][vectors].
class TilesOfColumns {
    float const* b_ = nullptr;
    float* to_ = nullptr;
    int64_t row_ = 0, k_ = 0, vectors_ = 0, left_ = 0;  // from b_ on: rows of B until its end; steps
    int pair_ = 0, tail_ = 0;

    template <int vectors, bool whole>
    RG_SIMD void make_pairs(int end) {
        int64_t const part = kTilePairs * vectors * kWidth, second = kTilePairs * row_;
        float const* b = b_ + pair_ * row_;
        float* to = to_ + pair_ * vectors * kWidth;
        for (int i = pair_; i < end; ++i, b += row_, to += vectors * kWidth)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; ++v) {
                float const* at = b + v * kWidth;
                __builtin_prefetch(at + kRowsOfBAhead * row_, 0, 2);
                __builtin_prefetch(at + kRowsOfBAhead * row_ + second, 0, 2);
                if constexpr (whole) {
                    store_parts(Vec::load(at), Vec::load(at + second), to + v * kWidth, part);
                } else {
                    int const lanes = v + 1 == vectors ? tail_ : kWidth;
                    Vec low = i < k_ ? load_part(at, lanes) : Vec::zero();
                    Vec high = i + kTilePairs < k_ ? load_part(at + second, lanes) : Vec::zero();
                    store_parts(low, high, to + v * kWidth, part);
                }
            }
    }

public:
    TilesOfColumns() = default;
    TilesOfColumns(ColumnsOfB const& c, float* to)
        : b_(c.b),
          to_(to),
          row_(c.row),
          k_(c.k),
          vectors_(c.vectors()),
          left_(tiles_of(c.k, kTileDepth)),
          tail_(static_cast<int>(c.n - (c.vectors() - 1) * kWidth)) {}
    RG_SIMD bool any() const { return left_ > 0; }
    /// Up to `count` pairs of rows of a step.
    [[gnu::noinline]] void make(int64_t count) {
        int const end = static_cast<int>(smaller(pair_ + count, kTilePairs));
        bool const whole = k_ >= kTileDepth && tail_ == kWidth;
        if (vectors_ == 2)
            whole ? make_pairs<2, true>(end) : make_pairs<2, false>(end);
        else
            whole ? make_pairs<1, true>(end) : make_pairs<1, false>(end);
        if ((pair_ = end) < kTilePairs) return;
        pair_ = 0, --left_, b_ += kTileDepth * row_, k_ -= kTileDepth, to_ += 3 * kTilePairs * vectors_ * kWidth;
    }
    void finish() {
        while (any()) make(kTilePairs);
    }
};

/// Sums of two tiles of rows, [row][vectors], that are stored a few rows at a time, while others are made.
class PendingRows {
    static constexpr int kAtOnce = 4;
    Block const* t_ = nullptr;
    Range r_{};
    ColumnsOfB b_;
    Finish f_{};
    bool after_ = false;
    float const *sums_ = nullptr, *residual_ = nullptr;
    float* y_ = nullptr;
    int64_t row_ = 0, column_ = 0, left_ = 0;

    template <int rows, int vectors>
    RG_SIMD void store_some() {
        Vec c[rows][vectors];
        Mask finite = first_lanes(kWidth);
        Vec const largest = Vec::set(__FLT_MAX__);
#pragma GCC unroll 4
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; ++v) {
                c[i][v] = Vec::load(sums_ + (i * vectors + v) * kWidth);
                finite = finite & (abs(c[i][v]) <= largest);
            }
        if (finite.m != first_lanes(kWidth).m) [[unlikely]] {
            auto t = *t_;
            t.source = ProductSource::Rows, t.n = column_ + b_.n;
            multiply_panel(t, {row_, rows, r_.depth, r_.k}, column_, b_.b, b_.row);
        } else {
            f_.residual = residual_;
            store_tile(c, y_, t_->y_row, static_cast<int>(b_.n - (vectors - 1) * kWidth), f_);
            if (after_ && f_.last)
                activate_block(*t_, y_, t_->y_row,
                               t_->residual && t_->residual_last ? t_->residual + (y_ - t_->y) : nullptr, rows, b_.n);
        }
        sums_ += rows * vectors * kWidth, y_ += rows * t_->y_row, row_ += rows, left_ -= rows;
        if (residual_) residual_ += rows * t_->y_row;
    }
    template <int vectors>
    RG_SIMD void store_next() {
        if (left_ >= kAtOnce)
            store_some<kAtOnce, vectors>();
        else
            store_some<1, vectors>();
    }

public:
    /// `rows` rows from row `first` of the range on.
    void begin(Block const& t, Range const& r, ColumnsOfB const& b, int64_t column, int64_t first, int64_t rows,
               float const* sums) {
        t_ = &t, r_ = r, b_ = b, sums_ = sums, column_ = column, row_ = r.row + first, left_ = rows;
        f_ = finish_of(t, after_);
        f_.load = r.depth > 0, f_.last = r.depth + r.k >= t.k;
        if (f_.bias && !f_.scalar_bias) f_.bias += column;
        int64_t const at = row_ * t.y_row + column;
        y_ = t.y + at, residual_ = f_.residual ? f_.residual + at : nullptr;
    }
    RG_SIMD bool any() const { return left_ > 0; }
    [[gnu::noinline]] void store_a_few() {
        if (b_.vectors() == 2)
            store_next<2>();
        else
            store_next<1>();
    }
    RG_SIMD void store_all() {
        while (any()) store_a_few();
    }
};

/// A block by tiles, whose registers are configured meanwhile.
class BySplitTiles {
    static constexpr int64_t kPair = 2 * kTileRows, kColumns = 2 * kWidth;
    TilesOfRows<3> a_{};
    int64_t steps_ = 0;
    float *now_ = nullptr, *next_ = nullptr;
    TilesOfColumns maker_;
    float const* next_b_ = nullptr;  // the columns that `maker_` makes to `next_`; null: none
    PendingRows pending_;
    int64_t at_once_ = 0;  // pairs of rows of B that are made at a time
    alignas(64) float sums_[2][kPair * kColumns];

    static constexpr int64_t columns_floats(int64_t steps) { return steps * 3 * kTilePairs * kColumns; }

    /// Products of rows from tile `tile` on.
    template <bool kBoth, bool kWide>
    RG_SIMD void add_products(int64_t tile, float* sums) {
        constexpr int64_t kRow = kWide ? kColumns : kWidth, kPart = kTilePairs * kRow;
        clear_sums<kBoth, kWide>();
        float const* b = now_;
        StoresNowAndThen stores;
        for (int64_t s = 0; s < steps_; ++s, b += 3 * kPart) {
            bool other = false;
            add_parts<kBoth, kWide>(
                {a_.tile(tile, s), a_.tile(kBoth ? tile + 1 : tile, s), kTileRow, kTileFloats, b, 4 * kRow, kPart},
                [&]() __attribute__((always_inline)) {
                    if ((other = !other)) {
                        if (pending_.any()) pending_.store_a_few();
                    } else {
                        if (at_once_ && maker_.any()) maker_.make(at_once_);
                    }
                });
            stores.after(kProductsOfParts * (kBoth ? 2 : 1) * (kWide ? 2 : 1));
        }
        pending_.store_all();
        store_sums<kBoth, kWide>(sums, sums + kTileRows * kRow, 4 * kRow);
    }
    RG_SIMD void add_products(int64_t tile, int64_t rows, bool wide, float* sums) {
        if (rows > kTileRows)
            wide ? add_products<true, true>(tile, sums) : add_products<true, false>(tile, sums);
        else
            wide ? add_products<false, true>(tile, sums) : add_products<false, false>(tile, sums);
    }

    void multiply_columns(Block const& t, Range const& r, int64_t column, ColumnsOfB const& c, ColumnsOfB const& next) {
        int64_t const passes = tiles_of(r.rows, kPair);
        if (next_b_ != c.b) maker_ = {c, next_};
        maker_.finish();
        std::swap(now_, next_);
        next_b_ = next.b, at_once_ = 0;
        if (next.b) {
            maker_ = {next, next_};
            // A step of two tiles of rows has six moments.
            at_once_ = tiles_of(kTilePairs * tiles_of(next.k, kTileDepth), 6 * passes * steps_);
        }
        for (int64_t pass = 0; pass < passes; ++pass) {
            int64_t const row = pass * kPair, rows = smaller(kPair, r.rows - row);
            float* sums = sums_[pass % 2];
            add_products(2 * pass, rows, c.vectors() == 2, sums);
            pending_.begin(t, r, c, column, row, rows, sums);
        }
    }

    /// The first columns of the packed panel that is multiplied with after that of column `j`.
    static ColumnsOfB panel_behind(Block const& t, Range const& r, int64_t j) {
        int64_t depth = r.depth, k = r.k;
        if ((j += kPanel) >= t.n) {
            j = 0, depth += k;
            if (depth >= t.k) depth = 0;
            k = smaller(t.block_k, t.k - depth);
            // The same columns again, of other rows.
            if (depth == 0 && r.row + r.rows >= t.m) return {};
        }
        int64_t const n = smaller(kPanel, t.n - j);
        return {panel_at(t, j, depth), width_of(n), k, smaller(kColumns, n)};
    }

public:
    static int64_t scratch(int64_t block_m, int64_t block_k, bool shared) {
        return (shared ? 0 : tiles_of_a(block_m, block_k)) + 2 * columns_floats(tiles_of(block_k, kTileDepth)) +
               block_k * kPanel;
    }
    static int64_t tiles_of_a(int64_t m, int64_t k) { return TilesOfRows<3>::floats(m, tiles_of(k, kTileDepth)); }
    static void make_tiles(Block const& t, int64_t first, int64_t rows) {
        TilesOfRows<3> all{t.a_tiles, tiles_of(t.k, kTileDepth)};
        split_rows(t.a + first * t.a_row, t.a_row, rows, t.k, {all.tile(first / kTileRows, 0), all.steps});
    }
    void begin(Block& t, Block const& whole, Range const& r) {
        pending_.store_all();
        steps_ = tiles_of(r.k, kTileDepth);
        a_ = {whole.scratch, steps_};
        auto* columns = whole.scratch;
        if (whole.a_tiles) {
            a_ = {whole.a_tiles, tiles_of(whole.k, kTileDepth)};
            a_.at = a_.tile(r.row / kTileRows, r.depth / kTileDepth);
        } else {
            split_rows(whole.a + r.row * whole.a_row + r.depth, whole.a_row, r.rows, r.k, a_);
            columns += tiles_of_a(whole.block_m, whole.block_k);
        }
        int64_t const floats = columns_floats(tiles_of(whole.block_k, kTileDepth));
        t.scratch = columns + 2 * floats;
        if (!now_) now_ = columns, next_ = columns + floats;
    }
    void multiply(Block const& t, Range const& r, int64_t j, float const* b, int64_t b_row, float const*) {
        int64_t const n = smaller(kPanel, t.n - j);
        bool const stays = t.source == ProductSource::Packed || t.source == ProductSource::Rows;
        for (int64_t v = 0; v < n; v += kColumns) {
            ColumnsOfB const c{b + v, b_row, r.k, smaller(kColumns, n - v)};
            ColumnsOfB next;
            if (v + kColumns < n)
                next = {b + v + kColumns, b_row, r.k, smaller(kColumns, n - v - kColumns)};
            else if (t.source == ProductSource::Packed)
                next = panel_behind(t, r, j);
            multiply_columns(t, r, j + v, c, next);
        }
        // Panels that are made overwrite each other.
        if (!stays) pending_.store_all(), next_b_ = nullptr;
    }
    void finish() { pending_.store_all(); }
};

}  // namespace
}  // namespace refactor::kernel
