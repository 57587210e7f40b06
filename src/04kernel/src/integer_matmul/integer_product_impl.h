#pragma once
// Loops of the integer product, written against `Lanes` and `dot`; include `integer_lanes_*.h`, define `dot`, RG_GROUP
// (k in a dword) and RG_ROWS × RG_VECTORS, the register tile: AVX-512 6 × 4 (24 of 32 registers accumulate, 4 hold B,
// 1 A), AVX2 6 × 2 (12 of 16, 2, 1, and one for products), and 4 × 3 where a panel and a vector are left.
#include "integer_matmul/integer_sums.h"
#include "simd/ahead.h"

namespace refactor::kernel {
namespace {

constexpr int kRows = RG_ROWS;
/// Rows of a panel that tiles of AVX-512 ask for before they need them, from L2: 8 of 12 cycles each.
constexpr int kRowsAhead = RG_VECTORS == 4 ? 8 : 0;
/// Of a tile: fewer vectors leave registers for more rows, up to those whose addresses are still at hand.
constexpr int rows_of(int vectors) {
    int rows = RG_ROWS * RG_VECTORS / vectors;
    return rows < 12 ? rows : 12;
}
constexpr int kMostRows = rows_of(1);
/// Of a tile: a narrow panel takes what is left behind it along, one vector, whose own tiles would read an element of A
/// for each product.
constexpr int kMostVectors = RG_VECTORS == 2 ? 3 : RG_VECTORS;

#ifdef RG_SPILLS
constexpr bool kSpills = true;
#else
constexpr bool kSpills = false;
#endif

/// What a dword of B is stored as.
#ifdef RG_NARROW
constexpr bool kNarrow = true;
using Cell = int16_t;
RG_SIMD Lanes load_cells(Cell const* p) { return Lanes::load_narrow(p); }
#else
constexpr bool kNarrow = false;
using Cell = int32_t;
RG_SIMD Lanes load_cells(Cell const* p) { return Lanes::load(p); }
#endif
RG_SIMD Cell const* cells_of(IntegerBlock const& t) { return reinterpret_cast<Cell const*>(t.b); }
/// Narrow loops are for few rows, which read B once: how far ahead of its use it is asked for, 2 KB.
constexpr int64_t kCellsAhead = 1024;

RG_SIMD int32_t load_dword(uint8_t const* p) {
    int32_t value;
    __builtin_memcpy(&value, p, 4);
    return value;
}

}  // namespace
}  // namespace refactor::kernel

#if RG_VECTORS == 4
#include "integer_matmul/integer_shallow_avx512.h"
#endif

namespace refactor::kernel {
namespace {

/// Dwords of k between two jumps. AVX2 takes two instructions for 16 products, so that what counts the loop would be a
/// large part of all, above all for a thread that shares its core's front end with another.
constexpr int kStepsAtOnce = RG_VECTORS == 2 ? 4 : 1;

/// What was taken out of vector `v` of the columns from `column` on.
template <int v, int rows, int vectors>
RG_SIMD void add_spills(IntegerBlock const& t, uint8_t const* const (&a)[rows], int64_t column,
                        Lanes (&c)[rows][vectors]) {
    int32_t const* first = t.spills.first + column / kWidth + v;
    int32_t const *place = t.spills.places + 2 * first[0], *end = t.spills.places + 2 * first[1];
    for (int32_t const* w = t.spills.weights + kWidth * first[0]; place != end; place += 2, w += kWidth) {
        int64_t offset = t.tap_offsets[place[0]] + place[1];
        Lanes y = Lanes::load(w);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) c[i][v] = dot(c[i][v], Lanes::set(load_dword(a[i] + offset)), y);
    }
    if constexpr (v + 1 < vectors) add_spills<v + 1>(t, a, column, c);
}

/// rows × vectors sums of a panel, from row `first` and column `column` of the block on.
template <int rows, int vectors>
RG_SIMD void accumulate(IntegerBlock const& t, Ahead ahead, int64_t first, int64_t column, Lanes (&c)[rows][vectors]) {
    uint8_t const* a[rows];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i) a[i] = t.a + (t.a_offsets ? t.a_offsets[first + i] : (first + i) * t.a_row);
    Cell const* b = cells_of(t) + column * t.taps * t.depth;
    int64_t const panel = kPanel * t.taps * t.depth;
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        Lanes add = Lanes::load(t.column_add + column + v * kWidth);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) c[i][v] = add;
    }
    if (t.row_add)
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[i][v] = c[i][v] + Lanes::set(t.row_add[first + i]);
    for (int64_t tap = 0; tap < t.taps; ++tap) {
        uint8_t const* x[rows];
        int64_t offset = t.tap_offsets[tap];
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) x[i] = a[i] + offset;
        auto step = [&](int64_t d, Cell const* of) __attribute__((always_inline)) {
            Lanes y[vectors];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                if constexpr (kRowsAhead > 0) __builtin_prefetch(of + kRowsAhead * kPanel + v * kWidth);
                y[v] = load_cells(v < kVectors ? of + v * kWidth : of + panel);
            }
#pragma GCC unroll 12
            for (int i = 0; i < rows; ++i) {
                Lanes w = Lanes::set(load_dword(x[i] + 4 * d));
#pragma GCC unroll 4
                for (int v = 0; v < vectors; ++v) c[i][v] = dot(c[i][v], w, y[v]);
            }
        };
        int64_t d = 0;
        for (; d + kStepsAtOnce <= t.depth; d += kStepsAtOnce, b += kStepsAtOnce * kPanel) {
            if constexpr (kNarrow)
#pragma GCC unroll 2
                for (int line = 0; line < 2; ++line) __builtin_prefetch(b + kCellsAhead + line * 64 / sizeof(Cell));
            else
                ahead.prefetch(kStepsAtOnce);
#pragma GCC unroll kStepsAtOnce
            for (int i = 0; i < kStepsAtOnce; ++i) step(d + i, b + i * kPanel);
        }
        ahead.from += (t.depth - d) * ahead.step;
        for (; d < t.depth; ++d, b += kPanel) step(d, b);
    }
    if constexpr (kSpills)
        if (t.spills.first) add_spills<0>(t, a, column, c);
}

/// Rows of whole panels of AVX-512, if they are of a frequent kind; returns whether they are.
template <int vectors>
RG_SIMD bool store_rows(IntegerBlock const& t, Finish const& f, int32_t const* sums, int rows, int64_t first,
                        int64_t column) {
    if constexpr (vectors == 4)
        if (f.kind != Finish::Kind::Any) {
            for (int i = 0; i < rows; ++i) {
                Lanes c[1][vectors];
#pragma GCC unroll 4
                for (int v = 0; v < vectors; ++v, sums += kWidth) {
                    c[0][v] = Lanes::load(sums);
                    correct(t, c[0][v], first + i, column + v * kWidth);
                }
                store_tile(t, f, c, first + i, column);
            }
            return true;
        }
    return false;
}

/// Stores sums of which one row after the other lies at `sums`.
[[gnu::noinline]] void store_sums(IntegerBlock const& t, Finish const& f, int32_t const* sums, int rows, int vectors,
                                  int64_t first, int64_t column) {
    if (vectors == kVectors && store_rows<kVectors>(t, f, sums, rows, first, column)) return;
    for (int i = 0; i < rows; ++i)
        for (int v = 0; v < vectors; ++v, sums += kWidth) {
            int64_t j = column + v * kWidth;
            Lanes sum = Lanes::load(sums);
            correct(t, sum, first + i, j);
            store_lanes(t, sum, j, (first + i) * t.y_row + j, t.columns - j, f);
        }
}

template <int rows, int vectors>
[[gnu::noinline]] void tile(IntegerBlock const& t, Finish const& f, Ahead ahead, int64_t first, int64_t column) {
    Lanes c[rows][vectors];
    accumulate<rows, vectors>(t, ahead, first, column, c);
    if constexpr (rows == rows_of(vectors))
        if (f.kind != Finish::Kind::Any) {
            if (t.b_zero || t.row_zero)
#pragma GCC unroll 12
                for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
                    for (int v = 0; v < vectors; ++v) correct(t, c[i][v], first + i, column + v * kWidth);
            return store_tile(t, f, c, first, column);
        }
    alignas(64) int32_t sums[rows * vectors * kWidth];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) c[i][v].store(sums + (i * vectors + v) * kWidth);
    store_sums(t, f, sums, rows, vectors, first, column);
}

using Tile = void (*)(IntegerBlock const&, Finish const&, Ahead, int64_t, int64_t);
struct Tiles {
    Tile of[kMostRows + 1][kMostVectors + 1] = {};
    template <int rows, int vectors>
    constexpr void fill() {
        of[rows][vectors] = tile<rows, vectors>;
        if constexpr (rows > 1)
            fill<rows - 1, vectors>();
        else if constexpr (vectors > 1)
            fill<rows_of(vectors - 1), vectors - 1>();
    }
    constexpr Tiles() { fill<rows_of(kMostVectors), kMostVectors>(); }
};
constexpr Tiles kTiles;

void multiply(IntegerBlock const& t) {
    Finish f = finish_of(t.tail);
    f.kind = kind_of(t, f);
    int64_t depth = t.taps * t.depth;
    for (int64_t column = 0, vectors; column < t.columns; column += vectors * kWidth) {
        int64_t left = t.columns - column;
        vectors = (left + kWidth - 1) / kWidth;
        if (vectors > kMostVectors) vectors = kVectors;
        int64_t rows = rows_of(static_cast<int>(vectors)), tiles = (t.rows + rows - 1) / rows;
        auto const* next = reinterpret_cast<char const*>(cells_of(t) + (column + kPanel) * depth);
        // All tiles of a panel together ask for the one behind it.
        constexpr int64_t kLine = kPanel * static_cast<int64_t>(sizeof(Cell));
        int64_t step = depth * kLine <= t.largest_ahead ? (kLine + tiles - 1) / tiles : 0;
        int64_t row = multiply_shallow(t, f, column, vectors);
        for (; row < t.rows; row += rows, next += step * depth)
            kTiles.of[t.rows - row < rows ? t.rows - row : rows][vectors](t, f, {next, step}, row, column);
    }
}

/// Sums of `vectors` blocks of channels at one position.
template <int vectors>
RG_SIMD void depthwise_channels(DepthwiseBlock const& t, Finish const& f, int64_t position, int64_t channel) {
    Lanes sum[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[v] = Lanes::load(t.column_add + channel + v * kWidth);
    uint8_t const* x = t.x + t.offsets[position] + channel;
    int32_t const* w = t.w + channel;
    for (int64_t tap = 0; tap < t.taps; ++tap, w += t.w_row)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            // The upper half of each lane of x is zero: two products of i16 are one.
            sum[v] =
                dot_words(sum[v], Lanes::load_bytes(x + t.tap_offsets[tap] + v * kWidth), Lanes::load(w + v * kWidth));
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        int64_t j = channel + v * kWidth;
        store_lanes(t, sum[v], j, position * t.y_row + j, t.channels - j, f);
    }
}

void depthwise_from(DepthwiseBlock const& t, Finish const& f, int64_t first) {
    for (int64_t position = 0; position < t.positions; ++position) {
        int64_t channel = first;
        for (; channel + 4 * kWidth <= t.channels; channel += 4 * kWidth)
            depthwise_channels<4>(t, f, position, channel);
        for (; channel < t.channels; channel += kWidth) depthwise_channels<1>(t, f, position, channel);
    }
}

void depthwise(DepthwiseBlock const& t) { depthwise_from(t, finish_of(t.tail), 0); }

}  // namespace
}  // namespace refactor::kernel

#include "integer_matmul/integer_terms_impl.h"

namespace refactor::kernel {
namespace {

constexpr IntegerFunctions kFunctions{RG_GROUP, kWidth, kPanel, kRows, multiply, depthwise, terms, widen, sum, nullptr};

}  // namespace
}  // namespace refactor::kernel
