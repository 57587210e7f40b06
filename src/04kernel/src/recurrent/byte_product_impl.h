#pragma once
// Loops of the product with weights of bytes, written against `Lanes`; include `integer_lanes_*.h` first and define
// `Weights` and `Codes` (`width` quads of B and one of A), `load_weights`, `load_codes`, `dot`, `store_codes`,
// RG_QUAD_BYTES (of A) and RG_ROWS × RG_TILE, the register tile of several rows: AVX-512 6 × 4 (24 of 32 registers
// accumulate, 4 hold B, 1 A), AVX2 3 × 2 (6 of 16, 4, 2, and some for products) or with VNNI 6 × 2 (12, 2, 1). A single
// row takes a panel at a time.
#include "recurrent/byte_product.h"

namespace refactor::kernel {
namespace {

constexpr bool kFlipsEven = RG_QUAD_BYTES == 8;
constexpr int kWidth = Lanes::width, kVectors = 4, kPanel = kWidth * kVectors;
constexpr int64_t kStep = kWidth * 4;        ///< bytes of a vector of B
constexpr int64_t kAhead = 16 * kPanel * 4;  ///< bytes of B that are fetched before they are read: 16 quads

template <int rows, int vectors>
[[gnu::noinline]] void tile(ByteProduct const& t, int64_t first, int64_t column) {
    Lanes c[rows][vectors];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) c[i][v] = Lanes::set(t.row_start[first + i]);
    uint8_t const* a = t.a + first * t.a_row;
    int8_t const* b = t.b + column / kPanel * kPanel * t.depth * 4 + column % kPanel * 4;
    // Two quads a turn: half as many copies of sums between turns.
#pragma GCC unroll 2
    for (int64_t d = 0; d < t.depth; ++d, a += RG_QUAD_BYTES, b += kPanel * 4) {
        Weights w[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) w[v] = load_weights(b + v * kStep);
        uint8_t const* upper = a + 3 * t.a_row;
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            Codes x = load_codes(i < 3 ? a + i * t.a_row : upper + (i - 3) * t.a_row);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[i][v] = dot(c[i][v], x, w[v]);
            // Keeps the compiler from loading all rows first, for which there are too few registers.
            __builtin_prefetch(b + kAhead + i * 64, 0, 3);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
        int64_t j = column + v * kWidth;
        Lanes sum = Lanes::load(t.column_sum + j), zero = Lanes::load(t.column_zero + j);
        Floats scale = Floats::load(t.column_scale + j), bias = Floats::set(0);
        if (t.bias) bias = Floats::load(t.bias + j);
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            int64_t row = first + i;
            Lanes value = c[i][v] - Lanes::set(t.row_zero[row]) * sum - Lanes::set(t.row_sum[row]) * zero;
            (to_float(value) * (Floats::set(t.row_scale[row]) * scale) + bias).store(t.y + row * t.y_row + j);
        }
    }
}

template <int rows>
RG_SIMD void some_rows(ByteProduct const& t, int64_t first) {
    constexpr int vectors = rows == 1 ? kVectors : RG_TILE;
    for (int64_t j = 0; j < t.columns; j += vectors * kWidth) tile<rows, vectors>(t, first, j);
}

void multiply(ByteProduct const& t) {
    if (t.rows >= RG_ROWS)
        for (int64_t j = 0; j < t.columns; j += RG_TILE * kWidth)
            for (int64_t i = 0; i + RG_ROWS <= t.rows; i += RG_ROWS) tile<RG_ROWS, RG_TILE>(t, i, j);
    int64_t first = t.rows / RG_ROWS * RG_ROWS;
    switch (t.rows - first) {
        case 1:
            return some_rows<1>(t, first);
        case 2:
            return some_rows<2>(t, first);
        case 3:
            return some_rows<3>(t, first);
        case 4:
            return some_rows<4>(t, first);
        case 5:
            return some_rows<5>(t, first);
    }
}

void bounds(float const* row, int64_t n, float* low, float* high) {
    Floats least = Floats::set(0), largest = least, odd = least;
    alignas(64) float rest[kWidth] = {}, lows[kWidth], highs[kWidth], odds[kWidth];
    int64_t whole = n / kWidth * kWidth;
    for (int64_t i = whole; i < n; ++i) rest[i - whole] = row[i];
    for (int64_t i = 0; i <= whole; i += kWidth) {
        Floats x = Floats::load(i < whole ? row + i : rest);
        least = min(x, least), largest = max(x, largest), odd = odd + x * Floats::set(0);
    }
    least.store(lows), largest.store(highs), odd.store(odds);
    *low = *high = 0;
    float any = 0;
    for (int i = 0; i < kWidth; ++i) {
        *low = lows[i] < *low ? lows[i] : *low, *high = highs[i] > *high ? highs[i] : *high;
        any += odds[i];
    }
    if (any != any) *low = any;
}

void encode(float const* row, int64_t n, float scale, int32_t zero, uint8_t* codes, int32_t* sum, int32_t* start) {
    constexpr int64_t kBytes = RG_QUAD_BYTES / 4;
    int64_t whole = n / kWidth * kWidth, end = (n + 3) / 4 * 4;
    *sum = *start = 0;
    if (!(scale > 0)) {
        for (int64_t i = 0; i < end * kBytes; ++i) codes[i] = 0;
        return;
    }
    Floats divisor = Floats::set(scale), offset = Floats::set(static_cast<float>(zero));
    Lanes sums = Lanes::zero();
    auto code = [&](float const* p) __attribute__((always_inline)) {
        return round(min(max(round_float(Floats::load(p) / divisor) + offset, Floats::set(0)), Floats::set(255)));
    };
    for (int64_t i = 0; i < whole; i += kWidth) {
        Lanes q = code(row + i);
        sums = sums + q;
        store_codes(q, codes + i * kBytes);
    }
    alignas(64) int32_t parts[kWidth];
    if (whole < n) {
        alignas(64) float rest[kWidth] = {};
        alignas(64) uint8_t last[kWidth * kBytes];
        for (int64_t i = whole; i < n; ++i) rest[i - whole] = row[i];
        code(rest).store(parts);
        for (int64_t i = n - whole; i < kWidth; ++i) parts[i] = 0;
        Lanes q = Lanes::load(parts);
        sums = sums + q;
        store_codes(q, last);
        for (int64_t i = 0; i < (end - whole) * kBytes; ++i) codes[whole * kBytes + i] = last[i];
    }
    sums.store(parts);
    for (int i = 0; i < kWidth; i += 2) {
        *sum += parts[i] + parts[i + 1];
        if (kFlipsEven) *start -= 128 * parts[i];
    }
}

constexpr ByteProductFunctions kFunctions{kWidth, kPanel, RG_QUAD_BYTES, kFlipsEven, multiply, bounds, encode};

}  // namespace
}  // namespace refactor::kernel
