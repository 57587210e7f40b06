#pragma once
// Products of pairs of bf16 by tiles (AMX), which add in f32; include `product_impl.h` and what it asks for first, and
// before that what emulates tiles, where they are.
//
// A is copied into tiles, [16 rows][16 dwords], unless its rows are of whole steps of pairs, which tiles read where
// they lie; B lies in panels: two tiles of rows and two of columns make four products, in 64 cycles for 32 k. Sums are
// stored while the next are made: tiles leave vectors idle.
#include "matmul/tile_operands_impl.h"

namespace refactor::kernel {
namespace {

/// Sums of two tiles of rows, [row][kPanel], that are stored a few rows at a time, while others are made.
class PendingPanel {
    static constexpr int kAtOnce = 2;
    int64_t rows_ = 0, moments_ = 1,
            due_ = 0;  // of `store_a_few`, among which rows are spread; in their parts of a row
    Block const* t_ = nullptr;
    Finish f_{};
    bool after_ = false;
    int vectors_ = 0, tail_ = 0;  // of columns; columns of the last
    int64_t columns_ = 0, left_ = 0;
    float* sums_ = nullptr;
    float* y_ = nullptr;
    uint16_t* narrow_y_ = nullptr;

    template <int rows, int vectors>
    RG_SIMD void store_some() {
        Vec c[rows][vectors];
#pragma GCC unroll 2
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[i][v] = Vec::load(sums_ + i * kPanel + v * kWidth);
        if (narrow_y_) {
            store_tile(c, sums_, kPanel, tail_, f_);
            if (after_) activate_block(*t_, sums_, kPanel, nullptr, rows, columns_);
            narrow_sums(rows);
        } else {
            store_tile(c, y_, t_->y_row, tail_, f_);
            if (after_)
                activate_block(*t_, y_, t_->y_row,
                               t_->residual && t_->residual_last ? t_->residual + (y_ - t_->y) : nullptr, rows,
                               columns_);
            y_ += rows * t_->y_row;
        }
        sums_ += rows * kPanel, left_ -= rows;
        if (f_.residual) f_.residual += rows * t_->y_row;
    }
    /// Results that have taken the place of their sums.
    RG_SIMD void narrow_sums(int rows) {
        for (int i = 0; i < rows; ++i, narrow_y_ += t_->y_row) narrow(sums_ + i * kPanel, columns_, narrow_y_);
    }
    template <int vectors>
    RG_SIMD void store_next() {
        if (left_ >= kAtOnce)
            store_some<kAtOnce, vectors>();
        else
            store_some<1, vectors>();
    }

    RG_SIMD void with_vectors(auto&& f) const {
        switch (vectors_) {
            case 1:
                return f.template operator()<1>();
            case 2:
                return f.template operator()<2>();
            case 3:
                return f.template operator()<3>();
            default:
                return f.template operator()<4>();
        }
    }

public:
    /// `rows` rows from row `first` of the range on, of the panel at column `j`; `store_a_few` is called so many times
    /// from now on, at least.
    void begin(Block const& t, Range const& r, int64_t j, int64_t first, int64_t rows, float* sums, int64_t moments) {
        t_ = &t, sums_ = sums, left_ = rows_ = rows, moments_ = moments, due_ = 0, columns_ = smaller(kPanel, t.n - j);
        f_ = finish_of(t, after_);
        f_.load = r.depth > 0, f_.last = r.depth + r.k >= t.k, after_ = after_ && f_.last;
        vectors_ = static_cast<int>(width_of(columns_) / kWidth);
        tail_ = static_cast<int>(columns_ - (vectors_ - 1) * kWidth);
        int64_t const at = (r.row + first) * t.y_row + j;
        if (f_.bias && !f_.scalar_bias) f_.bias += j;
        if (f_.residual) f_.residual += at;
        if (t.narrow_y)
            narrow_y_ = t.narrow_y + at;
        else
            y_ = t.y + at;
    }
    RG_SIMD bool any() const { return left_ > 0; }
    RG_SIMD void store_a_few() {
        if ((due_ += rows_) < kAtOnce * moments_) return;
        due_ -= kAtOnce * moments_;
        store_rows();
    }
    [[gnu::noinline]] void store_rows() {
        with_vectors([&]<int vectors>() __attribute__((always_inline)) { store_next<vectors>(); });
    }
    void store_all() {
        with_vectors([&]<int vectors>() __attribute__((always_inline)) {
            while (any()) store_next<vectors>();
        });
    }
};

/// Fewer steps leave too little time to store a part of the sums at each.
constexpr int64_t kManySteps = 8;

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
RG_SIMD void add_products(TilePair const& t, Ahead& ahead, PendingPanel& pending, TileSums const& sums) {
    if (sums.adds)
        load_sums<kBoth, kWide>(sums.at, sums.second(), 4 * sums.row);
    else
        clear_sums<kBoth, kWide>();
    float const *first = t.first, *second = t.second, *b = t.b;
    int64_t const whole = t.last_b ? t.steps - 1 : t.steps, row = 4 * t.b_row;
    bool const many = t.steps >= kManySteps;
    StoresNowAndThen stores;
    for (int64_t s = 0; s < whole; ++s) {
        ahead.prefetch(kTilePairs);
        add_pairs<kBoth, kWide>(first, second, t.a_row, b, row);
        if (many && pending.any()) pending.store_a_few();
        stores.after((kBoth ? 2 : 1) * (kWide ? 2 : 1));
        first += t.a_step, second += t.a_step, b += kTilePairs * t.b_row;
    }
    if (t.last_b) add_pairs<kBoth, kWide>(first, second, t.a_row, t.last_b, 4 * kPanel);
    store_sums<kBoth, kWide>(sums.at, sums.second(), 4 * sums.row);
}

/// The same of all columns of a panel.
template <bool kBoth>
RG_SIMD void add_products(TilePair t, int64_t vectors, Ahead& ahead, PendingPanel& pending, TileSums sums) {
    for (int64_t v = 0; v < vectors; v += 2, t.b += 2 * kWidth, sums.at += 2 * kWidth) {
        if (v + 1 < vectors)
            add_products<kBoth, true>(t, ahead, pending, sums);
        else
            add_products<kBoth, false>(t, ahead, pending, sums);
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
    static constexpr int64_t kPair = 2 * kTileRows;
    TilesOfA a_{}, copied_{};  // copied: rows of the range from `in_place_` on
    int64_t in_place_ = 0;
    int64_t steps_ = 0;
    PendingPanel pending_;
    int at_ = 0;  // of the sums that are made last
    alignas(64) float sums_[2][2 * kTileFloats * kVectors], last_[kTilePairs * kPanel];

    /// Whether sums of so many rows and columns are made in Y.
    static bool sums_in_place(Block const& t, int64_t rows, int64_t n) {
        if (!t.in_rows || t.alpha != 1 || t.bias || t.activation.kind != ActivationKind::None) return false;
        if (t.residual && t.residual != t.y) return false;
        return t.room_in_y || (rows % kTileRows == 0 && n % kWidth == 0);
    }
    TileSums sums_of(Block const& t, Range const& r, int64_t j, int64_t first, bool in_place) {
        if (!in_place) return {sums_[at_ ^= 1], kPanel, false};
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
        pending_.store_all();
        steps_ = tiles_of(r.k, kTilePairs);
        t.scratch = whole.scratch;
        float const* a = whole.a + r.row * whole.a_row;
        in_place_ = r.rows;
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
        bool const rounds = whole.elements;
        in_place_ = rounds || r.k % kTilePairs ? 0 : r.rows / kPair * kPair;
        a_ = TilesOfA::in_rows(a + r.depth, whole.a_row);
        TilesOfRows<1> tiles{whole.scratch, steps_};
        copy_rows(a + in_place_ * whole.a_row + (rounds ? 2 : 1) * r.depth, whole.a_row, r.rows - in_place_, r.k,
                  rounds ? elements_of(whole, r) : 0, tiles);
        copied_ = TilesOfA::among(tiles);
        t.scratch += tiles_of_a(whole.block_m, r.k);
    }
    void multiply(Block const& t, Range const& r, int64_t j, float const* b, int64_t b_row, float const* next) {
        int64_t const n = smaller(kPanel, t.n - j), wide = width_of(n), vectors = wide / kWidth;
        int64_t const passes = tiles_of(r.rows, kPair);
        TilePair pair{nullptr, nullptr, 0, 0, b, b_row, steps_, nullptr};
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
        for (int64_t i = 0; i < r.rows; i += kPair) {
            int64_t const rows = smaller(kPair, r.rows - i);
            TilesOfA const& a = i < in_place_ ? a_ : copied_;
            pair.first = a.at + (i < in_place_ ? i : i - in_place_) / kTileRows * a.tile, pair.second = pair.first;
            pair.a_step = a.step, pair.a_row = a.row;
            bool const in_place = sums_in_place(t, rows, n);
            TileSums const sums = sums_of(t, r, j, i, in_place);
            if (rows > kTileRows) {
                pair.second = pair.first + a.tile;
                add_products<true>(pair, vectors, ahead, pending_, sums);
            } else {
                add_products<false>(pair, vectors, ahead, pending_, sums);
            }
            if (!in_place)
                pending_.store_all(), pending_.begin(t, r, j, i, rows, sums.at, steps_ * tiles_of(vectors, 2));
            else if (t.maxima && r.depth + r.k >= t.k)
                find_maxima(sums, rows, n, t.maxima + (r.row + i) * kWidth);
        }
    }
    void finish() { pending_.store_all(); }
};

}  // namespace
}  // namespace refactor::kernel
