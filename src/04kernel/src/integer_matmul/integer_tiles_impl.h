#pragma once
// Products by tiles (AMX); include what emulates them first, where they are.
//
// A tile of A is up to 16 rows of 64 bytes, where they lie in memory at one distance from each other; a tile of B 16
// dwords of k by 16 columns, which is a vector of each of 16 rows of a panel. Two tiles of A and two of B make four
// products in 64 cycles, in which the four are loaded in 32 ("Intel 64 and IA-32 Architectures Optimization Reference
// Manual", chapter "Intel Advanced Matrix Extensions"); the other four tiles hold sums. Sums go through a buffer in L1
// to the vectors that finish them.
#define RG_VECTORS 4
#include "integer_matmul/integer_lanes_avx512.h"
// Written against what is above.
#include "integer_matmul/integer_sums.h"
// Written against that.
#include "integer_matmul/integer_rows_avx512.h"
#include "simd/ahead.h"
#include "simd/tiles.h"

namespace refactor::kernel {
namespace {

/// How many of `count` offsets are `step` from the one before, with the first.
RG_SIMD int64_t run_of(int64_t const* offset, int64_t count, int64_t step) {
    int64_t run = 1;
    for (int64_t others = 0; run + 8 <= count; run += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; ++i) others |= (offset[run + i] - offset[run + i - 1]) ^ step;
        if (others) break;
    }
    while (run < count && offset[run] - offset[run - 1] == step) ++run;
    return run;
}

/// Rows of A at one distance from each other.
struct TileOfRows {
    int rows = 0;
    int64_t step = 0;
    uint8_t const* at = nullptr;

    /// From row `first` on: a part, of as many rows as the others, of those at one distance.
    RG_SIMD static TileOfRows from(IntegerBlock const& t, int64_t first) {
        int64_t left = t.rows - first;
        if (left <= 0) return {};
        int64_t run = left, step = t.a_row;
        if (t.a_offsets) {
            int64_t const* offset = t.a_offsets + first;
            step = left > 1 ? offset[1] - offset[0] : 0;
            run = run_of(offset, left, step);
        }
        int64_t parts = (run + kTileRows - 1) / kTileRows;
        return {static_cast<int>((run + parts - 1) / parts), step,
                t.a + (t.a_offsets ? t.a_offsets[first] : first * t.a_row)};
    }
};

/// Adds a product of A, signed or not, to sum `sum`: of tile 4 or 5 with 6 or 7.
template <int sum, bool kSigned>
RG_SIMD void add_product() {
    if constexpr (kSigned) {
        if constexpr (sum == 0) _tile_dpbssd(0, 4, 6);
        if constexpr (sum == 1) _tile_dpbssd(1, 4, 7);
        if constexpr (sum == 2) _tile_dpbssd(2, 5, 6);
        if constexpr (sum == 3) _tile_dpbssd(3, 5, 7);
    } else {
        if constexpr (sum == 0) _tile_dpbusd(0, 4, 6);
        if constexpr (sum == 1) _tile_dpbusd(1, 4, 7);
        if constexpr (sum == 2) _tile_dpbusd(2, 5, 6);
        if constexpr (sum == 3) _tile_dpbusd(3, 5, 7);
    }
}

/// A·B of two tiles of rows (`kBoth`) and of columns (`kWide`), from column `column` on, to `sums`, [rows][kPanel].
template <bool kBoth, bool kWide, bool kSigned>
RG_SIMD void add_products(IntegerBlock const& t, TileOfRows const (&a)[2], int64_t dwords, int32_t const* b,
                          Ahead& ahead, int32_t* sums) {
    clear_sums<kBoth, kWide>();
    constexpr int64_t kRow = 4 * kPanel;
    StoresNowAndThen stores;
    for (int64_t tap = 0; tap < t.taps; ++tap) {
        int64_t offset = t.tap_offsets[tap];
        for (int64_t d = 0; d < t.depth; d += dwords, offset += 4 * dwords, b += dwords * kPanel) {
            ahead.prefetch(static_cast<int>(dwords));
            _tile_loadd(6, b, kRow);
            _tile_loadd(4, a[0].at + offset, a[0].step);
            add_product<0, kSigned>();
            if constexpr (kWide) {
                _tile_loadd(7, b + kTileColumns, kRow);
                add_product<1, kSigned>();
            }
            if constexpr (kBoth) {
                _tile_loadd(5, a[1].at + offset, a[1].step);
                add_product<2, kSigned>();
                if constexpr (kWide) add_product<3, kSigned>();
            }
            stores.after((kBoth ? 2 : 1) * (kWide ? 2 : 1));
        }
    }
    store_sums<kBoth, kWide>(sums, sums + a[0].rows * kPanel, kRow);
}

/// The same of four tiles of 16 rows and one of columns: four sums hide how long each product takes, and share B.
template <bool kSigned>
RG_SIMD void add_products(IntegerBlock const& t, TileOfRows const (&a)[4], int64_t dwords, int32_t const* b,
                          int32_t* sums) {
    clear_sums<true, true>();
    constexpr int64_t kRow = 4 * kPanel;
    StoresNowAndThen stores;
    for (int64_t tap = 0; tap < t.taps; ++tap) {
        int64_t offset = t.tap_offsets[tap];
        for (int64_t d = 0; d < t.depth; d += dwords, offset += 4 * dwords, b += dwords * kPanel) {
            _tile_loadd(6, b, kRow);
            _tile_loadd(4, a[0].at + offset, a[0].step);
            add_product<0, kSigned>();
            _tile_loadd(5, a[1].at + offset, a[1].step);
            add_product<2, kSigned>();
            _tile_loadd(7, b, kRow);
            _tile_loadd(4, a[2].at + offset, a[2].step);
            add_product<1, kSigned>();
            _tile_loadd(5, a[3].at + offset, a[3].step);
            add_product<3, kSigned>();
            stores.after(4);
        }
    }
    _tile_stored(0, sums, kRow);
    _tile_stored(2, sums + kTileRows * kPanel, kRow);
    _tile_stored(1, sums + 2 * kTileRows * kPanel, kRow);
    _tile_stored(3, sums + 3 * kTileRows * kPanel, kRow);
}

/// The same of all columns of a panel.
template <bool kBoth, bool kSigned>
RG_SIMD void add_products(IntegerBlock const& t, TileOfRows const (&a)[2], int64_t dwords, int64_t column,
                          int64_t vectors, Ahead& ahead, int32_t* sums) {
    int32_t const* b = t.b + column * t.taps * t.depth;
    for (int64_t v = 0; v < vectors; v += 2) {
        if (v + 1 < vectors)
            add_products<kBoth, true, kSigned>(t, a, dwords, b + v * kWidth, ahead, sums + v * kWidth);
        else
            add_products<kBoth, false, kSigned>(t, a, dwords, b + v * kWidth, ahead, sums + v * kWidth);
    }
}

RG_SIMD Lanes whole_sum(IntegerBlock const& t, int32_t const* sums, int64_t row, int64_t column) {
    Lanes sum = Lanes::load(sums) + Lanes::load(t.column_add + column);
    if (t.row_add) sum = sum + Lanes::set(t.row_add[row]);
    correct(t, sum, row, column);
    return sum;
}

/// Stores `rows` rows from row `first` on, whose products are at `sums`.
template <int vectors>
void finish_rows(IntegerBlock const& t, Finish const& f, int32_t const* sums, int64_t rows, int64_t first,
                 int64_t column) {
    if (store_frequent_rows<vectors>(t, f, sums, rows, first, column)) return;
    for (int64_t i = 0; i < rows; ++i)
        for (int v = 0; v < vectors; ++v) {
            int64_t j = column + v * kWidth;
            store_lanes(t, whole_sum(t, sums + i * kPanel + v * kWidth, first + i, j), j, (first + i) * t.y_row + j,
                        t.columns - j, f);
        }
}

RG_SIMD void finish_rows(IntegerBlock const& t, Finish const& f, int32_t const* sums, int64_t rows, int64_t first,
                         int64_t column, int64_t vectors) {
    switch (vectors) {
        case 1:
            return finish_rows<1>(t, f, sums, rows, first, column);
        case 2:
            return finish_rows<2>(t, f, sums, rows, first, column);
        case 3:
            return finish_rows<3>(t, f, sums, rows, first, column);
        default:
            return finish_rows<4>(t, f, sums, rows, first, column);
    }
}

/// Rows in lines of `length`, at one distance from each other if the `pitch` - `length` between two lines are rows as
/// well. Tiles go on through these, which are computed in vain, if that makes fewer: of 7 lines of 7, four for seven.
struct Lines {
    int64_t step, length, pitch;  ///< `pitch` 0: not so, or for no fewer tiles

    static Lines of(IntegerBlock const& t) {
        int64_t const* offset = t.a_offsets;
        if (!offset || t.rows < 2) return {};
        int64_t const step = offset[1] - offset[0];
        int64_t const length = run_of(offset, t.rows, step);
        if (length == t.rows || step <= 0) return {};
        int64_t const jump = offset[length] - offset[length - 1];
        if (jump < step || jump % step) return {};
        Lines const lines{step, length, length + jump / step - 1};
        for (int64_t i = length, left; i < t.rows; i += length) {
            left = t.rows - i < length ? t.rows - i : length;
            if (offset[i] - offset[i - length] != lines.pitch * step || run_of(offset + i, left, step) < left)
                return {};
        }
        auto tiles = [](int64_t n) { return (n + kTileRows - 1) / kTileRows; };
        bool fewer = tiles(lines.places(t.rows)) < (t.rows + length - 1) / length * tiles(length);
        return fewer ? lines : Lines{};
    }
    /// With those between lines.
    int64_t places(int64_t rows) const { return (rows - 1) / length * pitch + (rows - 1) % length + 1; }

    /// Stores what has been made for the places [first, end), the sums of which begin with place `made`.
    void finish(IntegerBlock const& t, Finish const& f, int32_t const* sums, int64_t made, int64_t first, int64_t end,
                int64_t column, int64_t vectors) const {
        for (int64_t place = first; place < end;) {
            int64_t const line = place / pitch, in = place - line * pitch;
            int64_t const rows = end - place < length - in ? end - place : length - in;
            if (rows > 0) finish_rows(t, f, sums + (place - made) * kPanel, rows, line * length + in, column, vectors);
            place = (line + 1) * pitch;
        }
    }
};

template <bool kSigned>
void multiply_by_tiles(IntegerBlock const& t) {
    int64_t const dwords = t.tile_dwords;
    Finish f = finish_of(t.tail);
    f.kind = kind_of(t, f);
    constexpr int64_t kBoth = 2 * kTileRows, kFour = 4 * kTileRows;
    alignas(64) int32_t sums[kFour * kPanel];
    TileRegisters tiles(dwords);
    Lines const lines = Lines::of(t);
    int64_t const places = lines.pitch ? lines.places(t.rows) : t.rows;
    int64_t const depth = t.taps * t.depth, pairs = (places + kBoth - 1) / kBoth;
    for (int64_t column = 0; column < t.columns; column += kPanel) {
        int64_t left = (t.columns - column + kWidth - 1) / kWidth, vectors = left < kVectors ? left : kVectors;
        // All passes over a panel together ask for the one behind it.
        constexpr int64_t kLine = 4 * kPanel;
        int64_t const passes = pairs * ((vectors + 1) / 2);
        bool more = column + kPanel < t.columns && depth * kLine <= t.largest_ahead;
        Ahead ahead{reinterpret_cast<char const*>(t.b + (column + kPanel) * depth),
                    more ? (kLine + passes - 1) / passes : 0};
        auto multiply = [&](TileOfRows const(&a)[2]) __attribute__((always_inline)) {
            tiles.shape(a[0].rows, a[1].rows);
            if (a[1].rows)
                add_products<true, kSigned>(t, a, dwords, column, vectors, ahead, sums);
            else
                add_products<false, kSigned>(t, a, dwords, column, vectors, ahead, sums);
        };
        /// Four whole tiles of rows and a narrow panel; how many rows, 0 where there are no such tiles.
        auto multiply_four = [&](int64_t row) -> int64_t {
            TileOfRows a[4];
            for (int64_t i = 0; i < 4; ++i) {
                a[i] = TileOfRows::from(t, row + i * kTileRows);
                if (a[i].rows != kTileRows) return 0;
            }
            tiles.shape(kTileRows, kTileRows);
            add_products<kSigned>(t, a, dwords, t.b + column * depth, sums);
            finish_rows(t, f, sums, kFour, row, column, vectors);
            return kFour;
        };
        for (int64_t row = 0, rows; row < places; row += rows) {
            if (vectors == 1 && !lines.pitch && (rows = multiply_four(row))) continue;
            if (!lines.pitch) {
                TileOfRows a[2] = {TileOfRows::from(t, row)};
                a[1] = TileOfRows::from(t, row + a[0].rows);
                multiply(a);
                rows = a[0].rows + a[1].rows;
                finish_rows(t, f, sums, rows, row, column, vectors);
                continue;
            }
            // The last tiles are whole as well, and begin with places that were made before.
            rows = places - row < kBoth ? places - row : kBoth;
            int64_t const made = places < kBoth ? 0 : row + rows - kBoth, count = row + rows - made;
            int const half = static_cast<int>((count + 1) / 2);
            uint8_t const* at = t.a + t.a_offsets[0] + made * lines.step;
            TileOfRows const a[2] = {{half, lines.step, at},
                                     {static_cast<int>(count - half), lines.step, at + half * lines.step}};
            multiply(a);
            lines.finish(t, f, sums, made, row, row + rows, column, vectors);
        }
    }
}

/// `by_vectors` takes what tiles gain nothing for.
void multiply_by_tiles(IntegerBlock const& t, void (*by_vectors)(IntegerBlock const&)) {
    if (t.a_signed) return multiply_by_tiles<true>(t);
    if (!t.tile_dwords || t.rows < kLeastTileRows) return by_vectors(t);
    multiply_by_tiles<false>(t);
}

}  // namespace
}  // namespace refactor::kernel
