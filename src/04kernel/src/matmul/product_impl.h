#pragma once
// Loops of the matrix product, written against `Vec`; include `vec_*.h`, `math.h` and `activate.h` first and define
// RG_ROWS × RG_VECTORS, the register tile: AVX-512 6 × 4 (24 of 32 registers accumulate, 4 hold B, 1 A), AVX2 6 × 2 (12
// of 16, 2, 1).
#include "matmul/product.h"

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width, kRows = RG_ROWS, kVectors = RG_VECTORS, kPanel = kWidth * kVectors;

RG_SIMD int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/// What a tile does with its sums.
struct Finish {
    bool load, last;  ///< begin with what Y holds; all of k has been added
    float alpha;
    float low, high;
    float const* bias;
    bool scalar_bias;
    float const* residual;
    bool residual_last;
};

RG_SIMD Vec load_part(float const* p, int tail) { return tail == kWidth ? Vec::load(p) : Vec::load_first(p, tail); }

template <int rows, int vectors>
RG_SIMD void store_tile(Vec (&c)[rows][vectors], float* y, int64_t y_row, int tail, Finish const& f) {
    Vec bias[vectors];
    if (f.bias)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            bias[v] = f.scalar_bias      ? Vec::set(*f.bias)
                      : v + 1 == vectors ? load_part(f.bias + v * kWidth, tail)
                                         : Vec::load(f.bias + v * kWidth);
    Vec low = Vec::set(f.low), high = Vec::set(f.high), alpha = Vec::set(f.alpha);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
        float const* residual = f.residual ? f.residual + i * y_row : nullptr;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            bool part = v + 1 == vectors && tail != kWidth;
            float* p = y + i * y_row + v * kWidth;
            Vec x = c[i][v];
            if (f.load) x = x + (part ? Vec::load_first(p, tail) : Vec::load(p));
            if (f.last) {
                x = x * alpha;
                if (f.bias) x = x + bias[v];
                Vec r = Vec::zero();
                if (residual)
                    r = part ? Vec::load_first(residual + v * kWidth, tail) : Vec::load(residual + v * kWidth);
                if (residual && !f.residual_last) x = x + r;
                x = min(high, max(low, x));
                if (residual && f.residual_last) x = x + r;
            }
            if (part)
                x.store_first(p, tail);
            else
                x.store(p);
        }
    }
}

/// rows × vectors sums over `k`; B has `b_row` between consecutive k, and `tail` columns in its last vector. `masked`:
/// B ends there.
template <int rows, int vectors, bool masked>
[[gnu::noinline]] void tile(int64_t k, float const* a, int64_t a_row, int64_t a_k, float const* b, int64_t b_row,
                            float* y, int64_t y_row, int tail, Finish const& f) {
    // Few accumulators would wait for each other: two sets take turns.
    constexpr int kSets = rows * vectors <= 8 ? 2 : 1;
    Vec c[kSets][rows][vectors];
#pragma GCC unroll 2
    for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[s][i][v] = Vec::zero();
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(y + i * y_row + v * kWidth, 1);
    auto step = [&](int s) __attribute__((always_inline)) {
        Vec x[vectors];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            x[v] = masked && v + 1 == vectors ? Vec::load_first(b + v * kWidth, tail) : Vec::load(b + v * kWidth);
        float const* upper = a + 3 * a_row;
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            Vec w = Vec::set(i < 3 ? a[i * a_row] : upper[(i - 3) * a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[s][i][v] = fma(w, x[v], c[s][i][v]);
        }
        a += a_k, b += b_row;
    };
    if constexpr (kSets == 2) {
        for (int64_t p = k / 2; p > 0; --p) step(0), step(1);
        if (k & 1) step(0);
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) c[0][i][v] = c[0][i][v] + c[1][i][v];
    } else {
        for (int64_t p = k; p > 0; --p) step(0);
    }
    store_tile(c[0], y, y_row, tail, f);
}

using Tile = void (*)(int64_t, float const*, int64_t, int64_t, float const*, int64_t, float*, int64_t, int,
                      Finish const&);
template <bool masked>
struct Tiles {
    Tile of[kRows + 1][kVectors + 1] = {};
    template <int rows, int vectors>
    constexpr void fill() {
        of[rows][vectors] = tile<rows, vectors, masked>;
        if constexpr (vectors > 1)
            fill<rows, vectors - 1>();
        else if constexpr (rows > 1)
            fill<rows - 1, kVectors>();
    }
    constexpr Tiles() { fill<kRows, kVectors>(); }
};
constexpr Tiles<false> kTiles;
constexpr Tiles<true> kMaskedTiles;

/// Columns of [K, N] to [K][width of the panel].
void pack_rows(float* target, float const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t p = 0; p < k; ++p, b += b_row, target += wide)
        for (int64_t v = 0; v < wide; v += kWidth) {
            int left = static_cast<int>(smaller(kWidth, n - v));
            (left == kWidth ? Vec::load(b + v) : Vec::load_first(b + v, left)).store(target + v);
        }
}
/// Rows of [N, K] to [K][width of the panel], a square of registers at a time.
void pack_columns(float* target, float const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t v = 0; v < wide; v += kWidth)
        for (int64_t p = 0; p < k; p += kWidth) {
            int left = static_cast<int>(smaller(kWidth, k - p));
            Vec r[kWidth];
#pragma GCC unroll 16
            for (int i = 0; i < kWidth; ++i) r[i] = v + i < n ? load_part(b + (v + i) * b_row + p, left) : Vec::zero();
            transpose(r);
#pragma GCC unroll 16
            for (int i = 0; i < kWidth; ++i)
                if (i < left) r[i].store(target + (p + i) * wide + v);
        }
}
RG_SIMD int64_t width_of(int64_t columns) { return (columns + kWidth - 1) / kWidth * kWidth; }

void pack(float* target, float const* b, int64_t b_row, bool columns, int64_t n, int64_t k) {
    for (int64_t j = 0; j < n; j += kPanel) {
        int64_t count = smaller(kPanel, n - j), wide = width_of(count);
        if (columns)
            pack_columns(target, b + j * b_row, b_row, count, k, wide);
        else
            pack_rows(target, b + j, b_row, count, k, wide);
        target += wide * k;
    }
}

/// Activations that are more than a clamp, on a block that has just been stored.
template <ActivationKind kind>
void activate_block(ProductBlock const& t, float* y, float const* residual, int64_t m, int64_t n) {
    Vec alpha = Vec::set(t.activation.alpha), beta = Vec::set(t.activation.beta);
    for (int64_t i = 0; i < m; ++i, y += t.y_row)
        for (int64_t j = 0; j < n; j += kWidth) {
            int left = static_cast<int>(smaller(kWidth, n - j));
            Vec x = activate<kind>(load_part(y + j, left), alpha, beta);
            if (residual) x = x + load_part(residual + i * t.y_row + j, left);
            if (left == kWidth)
                x.store(y + j);
            else
                x.store_first(y + j, left);
        }
}
void activate_block(ProductBlock const& t, float* y, float const* residual, int64_t m, int64_t n) {
    using enum ActivationKind;
    switch (t.activation.kind) {
        case LeakyRelu:
            return activate_block<LeakyRelu>(t, y, residual, m, n);
        case Sigmoid:
            return activate_block<Sigmoid>(t, y, residual, m, n);
        case Silu:
            return activate_block<Silu>(t, y, residual, m, n);
        case HardSigmoid:
            return activate_block<HardSigmoid>(t, y, residual, m, n);
        case HardSwish:
            return activate_block<HardSwish>(t, y, residual, m, n);
        case GeluErf:
            return activate_block<GeluErf>(t, y, residual, m, n);
        case GeluTanh:
            return activate_block<GeluTanh>(t, y, residual, m, n);
        case Tanh:
            return activate_block<Tanh>(t, y, residual, m, n);
        default:
            return;
    }
}

/// The clamp that the tile can do itself; `after` tells whether `activate_block` has to follow.
RG_SIMD Finish finish_of(ProductBlock const& t, bool& after) {
    constexpr float kInf = __builtin_inff();
    Finish f{false, false, t.alpha, -kInf, kInf, t.bias, t.scalar_bias, t.residual, t.residual_last};
    auto kind = t.activation.kind;
    if (kind == ActivationKind::Relu) f.low = 0;
    if (kind == ActivationKind::Clip) f.low = t.activation.alpha, f.high = t.activation.beta;
    after = kind != ActivationKind::None && kind != ActivationKind::Relu && kind != ActivationKind::Clip;
    if (after && f.residual_last) f.residual = nullptr;
    return f;
}

/// Rows of the next tile: never a lone thin one at the end (7 = 4 + 3, 8 = 4 + 4).
RG_SIMD int64_t rows_of(int64_t left) { return left <= kRows ? left : left < kRows + 3 ? (left + 1) / 2 : kRows; }

void multiply(ProductBlock const& t) {
    bool after;
    Finish whole = finish_of(t, after);
    for (int64_t i0 = 0; i0 < t.m; i0 += t.block_m) {
        int64_t m = smaller(t.block_m, t.m - i0), p0 = 0;
        do {  // once even if k is 0
            int64_t k = smaller(t.block_k, t.k - p0);
            float const* a0 = t.a + i0 * t.a_row + p0 * t.a_k;
            for (int64_t j = 0; j < t.n; j += kPanel) {
                int64_t n = smaller(kPanel, t.n - j), wide = width_of(n);
                int vectors = static_cast<int>(wide / kWidth), tail = static_cast<int>(n - (vectors - 1) * kWidth);
                float const* b = t.scratch;
                int64_t b_row = wide;
                switch (t.source) {
                    case ProductSource::Packed:
                        b = t.b + j * t.k + p0 * wide;
                        break;
                    case ProductSource::Rows:
                        b = t.b + p0 * t.b_row + j, b_row = t.b_row;
                        break;
                    case ProductSource::PackRows:
                        pack_rows(t.scratch, t.b + p0 * t.b_row + j, t.b_row, n, k, wide);
                        break;
                    case ProductSource::PackColumns:
                        pack_columns(t.scratch, t.b + j * t.b_row + p0, t.b_row, n, k, wide);
                        break;
                }
                auto const* tiles = t.source == ProductSource::Rows && tail != kWidth ? kMaskedTiles.of : kTiles.of;
                Finish f = whole;
                f.load = p0 > 0, f.last = p0 + k >= t.k;
                if (f.bias && !f.scalar_bias) f.bias += j;
                for (int64_t i = 0; i < m;) {
                    int64_t rows = rows_of(m - i), y = (i0 + i) * t.y_row + j;
                    if (whole.residual) f.residual = whole.residual + y;
                    tiles[rows][vectors](k, a0 + i * t.a_row, t.a_row, t.a_k, b, b_row, t.y + y, t.y_row, tail, f);
                    i += rows;
                    if (after && f.last)
                        activate_block(t, t.y + y, t.residual && t.residual_last ? t.residual + y : nullptr, rows, n);
                }
            }
            p0 += k;
        } while (p0 < t.k);
    }
}

/// `columns` dot products of one row of A with consecutive rows of B.
template <int columns>
RG_SIMD void dots(ProductBlock const& t, float const* a, float const* b, float* y) {
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

void multiply_dots(ProductBlock const& t) {
    bool after;
    Finish f = finish_of(t, after);
    f.last = f.load = true;
    for (int64_t j = 0; j < t.n;) {
        int64_t columns = t.n - j >= 4 ? 4 : 1;
        for (int64_t i = 0; i < t.m; ++i) {
            float const *a = t.a + i * t.a_row, *b = t.b + j * t.b_row;
            if (columns == 4)
                dots<4>(t, a, b, t.y + i * t.y_row + j);
            else
                dots<1>(t, a, b, t.y + i * t.y_row + j);
        }
        j += columns;
    }
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

constexpr ProductFunctions kFunctions{kWidth, kRows, kPanel, multiply, multiply_dots, pack};

}  // namespace
}  // namespace refactor::kernel
