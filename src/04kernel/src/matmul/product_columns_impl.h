#pragma once
// Products of many rows with few columns. Lanes are elements of k: lanes of columns would be empty for the most part.
// As many sums of vectors as there are lanes are then made at once. Include `product_tile.h` first, and what it asks
// for.
#include "simd/held.h"
#include "simd/sums.h"

namespace refactor::kernel {
namespace {

/// Elements of A that memory takes to bring while others are multiplied.
constexpr int64_t kColumnsAhead = 2048;

/// Rows times columns dot products; rows past `present` are the last one again. B is [columns, K]. `far`: rows that
/// follow are asked for.
template <int rows, int columns, bool far = false>
RG_SIMD void dot_tile(Block const& t, Element const* a, int64_t present, Element const* b, int64_t b_row,
                      Vec (&sums)[kWidth]) {
    Element const* from[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) from[r] = a + smaller(r, present - 1) * t.a_row;
#pragma GCC unroll 16
    for (int i = 0; i < kWidth; ++i) sums[i] = Vec::zero();
    int64_t const tile = rows * t.a_row, ahead = far ? (kColumnsAhead + tile - 1) / tile * tile : 0;
    auto step = [&](int64_t p, auto load) __attribute__((always_inline)) {
        if constexpr (far)
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) __builtin_prefetch(from[r] + p + ahead);
        Vec x[rows];
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) x[r] = held(load(from[r] + p));
#pragma GCC unroll 8
        for (int j = 0; j < columns; ++j) {
            Vec w = held(load(b + j * b_row + p));
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) add_product(sums[r * columns + j], x[r], w);
        }
    };
    int64_t const k = t.k;
    int64_t p = 0;
    for (; p + kWidth <= k; p += kWidth)
        step(p, [](Element const* at) __attribute__((always_inline)) { return Vec::load(at); });
    if (int left = static_cast<int>(k - p))
        step(p, [&](Element const* at) __attribute__((always_inline)) { return Vec::load_first(at, left); });
}

template <int columns, bool far>
void multiply_columns(Block const& t, Element const* b, int64_t b_row) {
    constexpr int rows = kWidth / columns;
    bool after;
    Finish const f = finish_of(t, after);
    // Rows of Y follow each other: a vector holds several.
    alignas(64) Element biases[kWidth] = {};
    for (int i = 0; f.bias && i < rows * columns; ++i) biases[i] = f.bias[f.scalar_bias ? 0 : i % columns];
    Vec const bias = Vec::load(biases), alpha = Vec::set(f.alpha), low = Vec::set(f.low), high = Vec::set(f.high);
    for (int64_t i = 0; i < t.m; i += rows) {
        int64_t const present = smaller(rows, t.m - i), at = i * columns;
        int const lanes = static_cast<int>(present * columns);
        Vec sums[kWidth];
        dot_tile<rows, columns, far>(t, t.a + i * t.a_row, present, b, b_row, sums);
        Vec y = fma(sums_of(sums), alpha, bias);
        Vec const residual = f.residual ? Vec::load_first(f.residual + at, lanes) : Vec::zero();
        if (!f.residual_last) y = y + residual;
        y = min(high, max(low, y));
        if (f.residual_last) y = y + residual;
        if (lanes == kWidth)
            y.store(t.y + at);
        else
            y.store_first(t.y + at, lanes);
    }
    if (after) activate_block(t, t.y, t.y_row, t.residual_last ? t.residual : nullptr, 1, t.m * columns);
}

/// B [K, N] to [N, K], rows `wide` apart, with zeros behind their ends.
void turn_columns(Block const& t, Element* to, int64_t wide) {
    for (int64_t p = 0; p < wide; p += kWidth) {
        Vec r[kWidth];
#pragma GCC unroll 16
        for (int i = 0; i < kWidth; ++i)
            r[i] = p + i < t.k ? Vec::load_first(t.b + (p + i) * t.b_row, static_cast<int>(t.n)) : Vec::zero();
        transpose(r);
#pragma GCC unroll 16
        for (int j = 0; j < kWidth; ++j)
            if (j < t.n) r[j].store(to + j * wide + p);
    }
}

template <int columns = kWidth / 2>
void multiply_columns_of(Block const& t, Element const* b, int64_t b_row) {
    if constexpr (columns >= 2) {
        if (t.n == columns)
            return (t.near ? multiply_columns<columns, false> : multiply_columns<columns, true>)(t, b, b_row);
        multiply_columns_of<columns - 1>(t, b, b_row);
    }
}

void multiply_columns(Block const& t) {
    if (t.source == ProductSource::Columns) return multiply_columns_of(t, t.b, t.b_row);
    turn_columns(t, t.scratch, width_of(t.k));
    multiply_columns_of(t, t.scratch, width_of(t.k));
}

}  // namespace
}  // namespace refactor::kernel
