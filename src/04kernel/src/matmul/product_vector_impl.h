#pragma once
// Products of few rows with B where it lies, each element of which is read once: bound by reading it. Include
// `product_tile.h` first, and what it asks for.

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
    if (after) activate_block(t, t.y, t.residual_last ? t.residual : nullptr, t.m, t.n);
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

void multiply_dots(Block const& t) {
    for (int64_t j = 0; j < t.n;) {
        int64_t columns = t.n - j >= 4 ? 4 : 1;
        for (int64_t i = 0; i < t.m; ++i) {
            Element const *a = t.a + i * t.a_row, *b = t.b + j * t.b_row;
            if (columns == 4)
                dots<4>(t, a, b, t.y + i * t.y_row + j);
            else
                dots<1>(t, a, b, t.y + i * t.y_row + j);
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

void multiply_streamed(Block const& t) {
    constexpr int kRowsAtOnce = 8;
    // Of B, so that its rows stay in L1 while rows of A take turns with them; one row has no use for that.
    int64_t columns = t.m == 1 ? 4096 : 512;
    for (int64_t j = 0; j < t.n; j += columns) {
        int64_t n = smaller(columns, t.n - j);
        for (int64_t p = 0; p < t.k;) {
            bool whole = t.k - p >= kRowsAtOnce;
            Element const* b = t.b + p * t.b_row + j;
            for (int64_t i = 0; i < t.m; ++i) {
                Element const* a = t.a + i * t.a_row + p * t.a_k;
                Element* y = t.y + i * t.y_row + j;
                if (whole)
                    add_rows<kRowsAtOnce>(t, a, b, y, n, p == 0);
                else
                    add_rows<1>(t, a, b, y, n, p == 0);
            }
            p += whole ? kRowsAtOnce : 1;
        }
    }
    finish_sums(t);
}

}  // namespace
}  // namespace refactor::kernel
