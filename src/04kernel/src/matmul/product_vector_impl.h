#pragma once
// Products of few rows with B where it lies, each element of which is read once: bound by reading it. Include
// `product_tile.h` first, and what it asks for.
#include "matmul/product_columns_impl.h"

namespace refactor::kernel {
namespace {

/// What follows the sums, which Y holds.
void finish_sums(Block const& t) {
    bool after;
    Finish f = finish_of(t, after);
    f.last = f.load = true;
    for (int64_t i = 0; i < t.m; ++i)
        for (int64_t j = 0; j < t.n; j += kWidth) {
            Vec zero[1][1] = {{Vec::zero()}};
            Finish g = f;
            if (f.bias && !f.scalar_bias) g.bias = f.bias + j;
            if (f.residual) g.residual = f.residual + i * t.y_row + j;
            store_tile(zero, t.y + i * t.y_row + j, t.y_row, static_cast<int>(smaller(kWidth, t.n - j)), g);
        }
    if (after) activate_block(t, t.y, t.y_row, t.residual_last ? t.residual : nullptr, t.m, t.n);
}

/// `columns` dot products of one row of A with consecutive rows of B.
template <int columns>
RG_SIMD void dots(Block const& t, Element const* a, Element const* b, Element* y) {
    Vec c[columns][2];
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) c[j][0] = c[j][1] = Vec::zero();
    int64_t p = 0;
    for (; p + 2 * kWidth <= t.k; p += 2 * kWidth) {
        Vec x = Vec::load(a + p), z = Vec::load(a + p + kWidth);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) {
            c[j][0] = fma(x, Vec::load(b + j * t.b_row + p), c[j][0]);
            c[j][1] = fma(z, Vec::load(b + j * t.b_row + p + kWidth), c[j][1]);
        }
    }
    for (; p < t.k; p += kWidth) {
        int left = static_cast<int>(smaller(kWidth, t.k - p));
        Vec x = Vec::load_first(a + p, left);
#pragma GCC unroll 4
        for (int j = 0; j < columns; ++j) c[j][0] = fma(x, Vec::load_first(b + j * t.b_row + p, left), c[j][0]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < columns; ++j) y[j] = sum(c[j][0] + c[j][1]);
}

/// A vector of short dot products: turned into columns, their sums need one addition for all.
RG_SIMD void short_dots(Block const& t, Element const* a, Element const* b, Element* y) {
    Vec c[kWidth];
#pragma GCC unroll 16
    for (int j = 0; j < kWidth; ++j) c[j] = Vec::zero();
    int64_t p = 0;
    for (; p + kWidth <= t.k; p += kWidth) {
        Vec x = Vec::load(a + p);
#pragma GCC unroll 16
        for (int j = 0; j < kWidth; ++j) c[j] = fma(x, Vec::load(b + j * t.b_row + p), c[j]);
    }
    if (int tail = static_cast<int>(t.k - p)) {
        Vec x = Vec::load_first(a + p, tail);
#pragma GCC unroll 16
        for (int j = 0; j < kWidth; ++j) c[j] = fma(x, Vec::load_first(b + j * t.b_row + p, tail), c[j]);
    }
    transpose(c);
#pragma GCC unroll 4
    for (int half = kWidth / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int j = 0; j < half; ++j) c[j] = c[j] + c[j + half];
    c[0].store(y);
}

/// Up to this depth the sums across a vector take as long as the products. Rows of B that are longer are read a few at
/// a time, which is what caches ask for ahead.
constexpr int64_t kShortDots = 256;

/// `rows` rows at a time, whose dot products with as many rows of B as fill a vector with sums share what they read.
/// Returns how many columns are done, all but the last few.
template <int rows>
int64_t multiply_dot_tiles(Block const& t) {
    constexpr int columns = kWidth / rows;
    int64_t j = 0;
    for (; j + columns <= t.n; j += columns)
        for (int64_t i = 0; i < t.m; i += rows) {
            int64_t const present = smaller(rows, t.m - i);
            Vec sums[kWidth];
            dot_tile<rows, columns>(t, t.a + i * t.a_row, present, t.b + j * t.b_row, t.b_row, sums);
            alignas(64) Element y[kWidth];
            sums_of(sums).store(y);
            for (int64_t r = 0; r < present; ++r)
                __builtin_memcpy(t.y + (i + r) * t.y_row + j, y + r * columns, columns * sizeof(Element));
        }
    return j;
}

void multiply_dots(Block const& t) {
    bool const are_short = t.k <= kShortDots;
    int64_t done = 0;
    if constexpr (kWidth >= 8)
        if (t.m > 1) done = (t.m == 2 ? multiply_dot_tiles<2> : multiply_dot_tiles<kWidth / 4>)(t);
    for (int64_t j = done; j < t.n;) {
        int64_t columns = are_short && t.n - j >= kWidth ? kWidth : t.n - j >= 4 ? 4 : 1;
        for (int64_t i = 0; i < t.m; ++i) {
            Element const *a = t.a + i * t.a_row, *b = t.b + j * t.b_row;
            Element* y = t.y + i * t.y_row + j;
            if (are_short && columns == kWidth)
                short_dots(t, a, b, y);
            else if (columns == 4)
                dots<4>(t, a, b, y);
            else
                dots<1>(t, a, b, y);
        }
        j += columns;
    }
    finish_sums(t);
}

/// Adds `rows` rows of B, each times an element of A, to a row of Y; the first ones begin it.
template <int rows>
RG_SIMD void add_rows(Block const& t, Element const* a, Element const* b, Element* y, int64_t n, bool first) {
    Vec w[rows];
#pragma GCC unroll 8
    for (int r = 0; r < rows; ++r) w[r] = Vec::set(a[r * t.a_k]);
    auto sum = [&](int64_t j, auto load) __attribute__((always_inline)) {
        Vec even = first ? Vec::zero() : load(y + j), odd = Vec::zero();
#pragma GCC unroll 8
        for (int r = 0; r < rows; ++r) {
            Vec& to = r % 2 ? odd : even;
            to = fma(w[r], load(b + r * t.b_row + j), to);
        }
        return even + odd;
    };
    int64_t j = 0;
    for (; j + kWidth <= n; j += kWidth)
        sum(j, [](Element const* p) __attribute__((always_inline)) { return Vec::load(p); }).store(y + j);
    if (int tail = static_cast<int>(n - j))
        sum(
            j, [&](Element const* p) __attribute__((always_inline)) { return Vec::load_first(p, tail); })
            .store_first(y + j, tail);
}

/// Asks for `rows` whole rows of B, some rows ahead of those that are added: what follows such rows in memory is read
/// next, be it of the next matrix.
RG_SIMD void ask_ahead(Block const& t, Element const* b, int64_t rows) {
    constexpr int64_t kLine = 64, kAhead = 16;
    auto const* from = reinterpret_cast<char const*>(b + kAhead * t.b_row);
    for (int64_t byte = 0; byte < rows * t.b_row * int64_t{sizeof(Element)}; byte += kLine)
        __builtin_prefetch(from + byte);
}

void multiply_streamed(Block const& t) {
    // Of B, so that its rows stay in L1 while rows of A take turns with them; one row has no use for that.
    int64_t columns = t.m == 1 ? 4096 : 512;
    for (int64_t j = 0; j < t.n; j += columns) {
        int64_t n = smaller(columns, t.n - j);
        for (int64_t p = 0; p < t.k;) {
            int64_t left = t.k - p, rows = left >= 8 ? 8 : left >= 4 ? 4 : 1;
            Element const* b = t.b + p * t.b_row + j;
            if (n == t.b_row && !t.near) ask_ahead(t, b, rows);
            for (int64_t i = 0; i < t.m; ++i) {
                Element const* a = t.a + i * t.a_row + p * t.a_k;
                Element* y = t.y + i * t.y_row + j;
                if (rows == 8)
                    add_rows<8>(t, a, b, y, n, p == 0);
                else if (rows == 4)
                    add_rows<4>(t, a, b, y, n, p == 0);
                else
                    add_rows<1>(t, a, b, y, n, p == 0);
            }
            p += rows;
        }
    }
    finish_sums(t);
}

}  // namespace
}  // namespace refactor::kernel
