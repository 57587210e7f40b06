#pragma once
// What the loops of products share, written against `Vec`; include `vec_*.h`, `math.h` and `activate.h` first and
// define RG_ROWS × RG_VECTORS, the register tile: AVX-512 6 × 4 (24 of 32 registers accumulate, 4 hold B, 1 A), AVX2 6
// × 2 (12 of 16, 2, 1).
#include "matmul/product.h"

namespace refactor::kernel {
namespace {

using Element = Vec::Element;
using Block = ProductBlockOf<Element>;

constexpr int kWidth = Vec::width, kRows = RG_ROWS, kVectors = RG_VECTORS, kPanel = kWidth * kVectors;
constexpr Element kInf = static_cast<Element>(__builtin_inf());
constexpr bool kLong = sizeof(Vec) == 64;  // AVX-512

/// Rows of B that tiles of AVX-512 ask for before they need them, from L2: 8 of 12 cycles each. AVX2's have no
/// instructions to spare.
constexpr int kRowsAhead = kLong ? 8 : 0;
template <int vectors>
RG_SIMD void prefetch_row(Element const* b, int64_t b_row) {
    if constexpr (kRowsAhead > 0)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) __builtin_prefetch(b + kRowsAhead * b_row + v * kWidth);
}

/// Of k between two jumps, where A's rows are contiguous. Twelve multiply-adds on AVX2 come with eight loads: what
/// counts the loop would be the instructions too many, above all for a thread that shares its core's front end with
/// another. Twenty-four of AVX-512 leave time for more, and with four steps GCC copies sums between registers.
constexpr int kStepsAtOnce = kLong ? 2 : 8;

RG_SIMD int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

RG_SIMD int64_t width_of(int64_t columns) { return (columns + kWidth - 1) / kWidth * kWidth; }

/// Few accumulators would wait for each other: two sets take turns, where registers allow.
constexpr int sets_of(int accumulators) { return accumulators <= 8 && 2 * accumulators <= kRows * kVectors ? 2 : 1; }

/// What a tile does with its sums.
struct Finish {
    bool load, last;  ///< begin with what Y holds; all of k has been added
    float alpha;
    Element low, high;
    Element const* scales;  ///< one for each column; null: none
    Element const* bias;
    bool scalar_bias;
    Element const* residual;
    bool residual_last;
    /// Lines to ask for, so far apart, of what others make of the results; null: those of the tile.
    Element const* lines = nullptr;
    int64_t lines_row = 0, lines_vector = 0;
    Element const* row_bias = nullptr;  ///< what sums of each row begin with; null: zeros
};

RG_SIMD Vec load_part(Element const* p, int tail) { return tail == kWidth ? Vec::load(p) : Vec::load_first(p, tail); }

/// Whole vectors that are at most scaled and added to: of short products the rest would take a noticeable part.
template <int rows, int vectors>
RG_SIMD void store_plain(Vec (&c)[rows][vectors], Element* y, int64_t y_row, int64_t y_vector, Finish const& f) {
    Vec alpha = Vec::set(f.alpha);
    auto each = [&](auto&& result) __attribute__((always_inline)) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                int64_t at = i * y_row + v * y_vector;
                result(c[i][v], at).store(y + at);
            }
    };
    if (f.residual)
        each([&](Vec x, int64_t at)
                 __attribute__((always_inline)) { return fma(x, alpha, Vec::load(f.residual + at)); });
    else if (f.alpha == 1)
        each([](Vec x, int64_t) __attribute__((always_inline)) { return x; });
    else
        each([&](Vec x, int64_t) __attribute__((always_inline)) { return x * alpha; });
}

/// `y_vector`: between the vectors of a row.
template <int rows, int vectors>
RG_SIMD void store_tile(Vec (&c)[rows][vectors], Element* y, int64_t y_row, int tail, Finish const& f,
                        int64_t y_vector = kWidth) {
    if (!f.load && f.last && tail == kWidth && !f.scales && !f.bias && f.low == -kInf && f.high == kInf)
        return store_plain(c, y, y_row, y_vector, f);
    Vec bias[vectors];
    if (f.bias)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            bias[v] = f.scalar_bias      ? Vec::set(*f.bias)
                      : v + 1 == vectors ? load_part(f.bias + v * kWidth, tail)
                                         : Vec::load(f.bias + v * kWidth);
    Vec scales[vectors];
    if (f.scales)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            scales[v] = v + 1 == vectors ? load_part(f.scales + v * kWidth, tail) : Vec::load(f.scales + v * kWidth);
    Vec low = Vec::set(f.low), high = Vec::set(f.high), alpha = Vec::set(f.alpha);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
        Element const* residual = f.residual ? f.residual + i * y_row : nullptr;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            bool part = v + 1 == vectors && tail != kWidth;
            Element* p = y + i * y_row + v * y_vector;
            Vec x = c[i][v];
            if (f.load) x = x + (part ? Vec::load_first(p, tail) : Vec::load(p));
            if (f.last) {
                if (f.scales) x = x * scales[v];
                x = x * alpha;
                if (f.bias) x = x + bias[v];
                Vec r = Vec::zero();
                if (residual)
                    r = part ? Vec::load_first(residual + v * y_vector, tail) : Vec::load(residual + v * y_vector);
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

/// Activations that are more than a clamp, on a block that has just been stored; steps of the residual as of `y`.
template <ActivationKind kind>
void activate_block(Block const& t, Element* y, int64_t y_row, Element const* residual, int64_t m, int64_t n) {
    Vec alpha = Vec::set(t.activation.alpha), beta = Vec::set(t.activation.beta);
    for (int64_t i = 0; i < m; ++i, y += y_row)
        for (int64_t j = 0; j < n; j += kWidth) {
            int left = static_cast<int>(smaller(kWidth, n - j));
            Vec x = activate<kind>(load_part(y + j, left), alpha, beta);
            if (residual) x = x + load_part(residual + i * y_row + j, left);
            if (left == kWidth)
                x.store(y + j);
            else
                x.store_first(y + j, left);
        }
}
void activate_block(Block const& t, Element* y, int64_t y_row, Element const* residual, int64_t m, int64_t n) {
    using enum ActivationKind;
    switch (t.activation.kind) {
        case LeakyRelu:
            return activate_block<LeakyRelu>(t, y, y_row, residual, m, n);
        case Sigmoid:
            return activate_block<Sigmoid>(t, y, y_row, residual, m, n);
        case Silu:
            return activate_block<Silu>(t, y, y_row, residual, m, n);
        case HardSigmoid:
            return activate_block<HardSigmoid>(t, y, y_row, residual, m, n);
        case HardSwish:
            return activate_block<HardSwish>(t, y, y_row, residual, m, n);
        case GeluErf:
            return activate_block<GeluErf>(t, y, y_row, residual, m, n);
        case GeluTanh:
            return activate_block<GeluTanh>(t, y, y_row, residual, m, n);
        case Tanh:
            return activate_block<Tanh>(t, y, y_row, residual, m, n);
        default:
            return;
    }
}

/// The clamp that the tile can do itself; `after` tells whether `activate_block` has to follow.
RG_SIMD Finish finish_of(Block const& t, bool& after) {
    Finish f{false, false, t.alpha, -kInf, kInf, nullptr, t.bias, t.scalar_bias, t.residual, t.residual_last};
    auto kind = t.activation.kind;
    if (kind == ActivationKind::Relu) f.low = 0;
    if (kind == ActivationKind::Clip) f.low = t.activation.alpha, f.high = t.activation.beta;
    after = kind != ActivationKind::None && kind != ActivationKind::Relu && kind != ActivationKind::Clip;
    if (after && f.residual_last) f.residual = nullptr;
    return f;
}

/// Rows of the next tile: never a lone thin one at the end (7 = 4 + 3, 8 = 4 + 4).
RG_SIMD int64_t rows_of(int64_t left) { return left <= kRows ? left : left < kRows + 3 ? (left + 1) / 2 : kRows; }

}  // namespace
}  // namespace refactor::kernel
