#pragma once
// Sums of register tiles; include `product_tile.h` first and what it asks for.
#include "simd/ahead.h"

namespace refactor::kernel {
namespace {

template <int rows, int vectors>
RG_SIMD void clear(Vec (&c)[rows][vectors]) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) c[i][v] = Vec::zero();
}

/// Sums that begin with a number for each row; null: with zeros.
template <int rows, int vectors>
RG_SIMD void start(Vec (&c)[rows][vectors], Element const* of_rows) {
    if (!of_rows) return clear(c);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) c[i][v] = Vec::set(of_rows[i]);
}

/// Adds to rows × vectors their sums over `k`. `b` gives the vectors of B for one k after the other, and hears how many
/// follow.
template <int rows, int vectors, class B>
RG_SIMD void accumulate(Vec (&sums)[rows][vectors], int64_t k, Element const* a, int64_t a_row, int64_t a_k, B&& b) {
    constexpr int kSets = sets_of(rows * vectors);
    Vec c[kSets][rows][vectors];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) {
            c[0][i][v] = sums[i][v];
            if constexpr (kSets == 2) c[1][i][v] = Vec::zero();
        }
    Element const* upper = a + 3 * a_row;
    auto step = [&](int s, int64_t at) __attribute__((always_inline)) {
        Vec x[vectors];
        b.next(x);
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            Element const* element = i < 3 ? a + i * a_row + at : upper + (i - 3) * a_row + at;
            if constexpr (vectors == 1) {
                add_product(c[s][i][0], x[0], element);
                continue;
            }
            Vec w = Vec::set(*element);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) add_product(c[s][i][v], w, x[v]);
        }
    };
    int64_t p = k;
    auto advance = [&](int steps) __attribute__((always_inline)) {
        a += steps * a_k, upper += steps * a_k, p -= steps;
    };
    if constexpr (kStepsAtOnce > 1)
        if (a_k == 1)
            while (p >= kStepsAtOnce) {
                // Else the compiler keeps an address for each element, on the stack.
                asm volatile("" : "+r"(a), "+r"(upper), "+r"(a_row));
                b.follow(kStepsAtOnce);
#pragma GCC unroll 8
                for (int i = 0; i < kStepsAtOnce; ++i) step(i % kSets, i);
                advance(kStepsAtOnce);
            }
    if constexpr (kSets == 2)
        while (p >= 2) b.follow(2), step(0, 0), step(1, a_k), advance(2);
    while (p > 0) b.follow(1), step(0, 0), advance(1);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[i][v] = kSets == 2 ? c[0][i][v] + c[kSets - 1][i][v] : c[0][i][v];
}

/// Lines of a tile and of what is added to it, asked for while its sums are made: at once by AVX2, which has no
/// instructions to spare; else one after the other, for many at once would keep B waiting.
template <int rows, int vectors>
class TileLines {
    static constexpr int kLines = rows * vectors;
    Element const *tile_ = nullptr, *residual_ = nullptr;
    int64_t row_ = 0, vector_ = 0;
    int asked_ = kLines;

    RG_SIMD void ask_one(int i) {
        int64_t at = i / vectors * row_ + i % vectors * vector_;
        __builtin_prefetch(tile_ + at, 1);
        if (kLong && residual_) __builtin_prefetch(residual_ + at);
    }

public:
    TileLines() = default;
    RG_SIMD TileLines(Element const* tile, Element const* residual, int64_t row, int64_t vector = kWidth)
        : tile_(tile), residual_(residual), row_(row), vector_(vector), asked_(0) {
        if constexpr (!kLong)
#pragma GCC unroll 24
            for (int i = 0; i < kLines; ++i) ask_one(i);
    }
    RG_SIMD void ask() {
        if constexpr (kLong)
            if (asked_ < kLines) ask_one(asked_++);
    }
};

/// Where a tile finds rows of B: in a panel as wide as the tile, in one that no other tile reads, which is a stream
/// that the processor brings by itself, faster than if it were asked; with `b_row` between them, or likewise in a
/// matrix that ends with the last of `tail` columns.
enum class RowsOf : uint8_t { Panel, Stream, Matrix, Edge };

template <int rows, int vectors, RowsOf source>
struct PanelRows {
    Element const* b;
    int64_t b_row;
    int tail;
    Ahead ahead;
    TileLines<rows, vectors> lines;

    RG_SIMD void next(Vec (&x)[vectors]) {
        int64_t const row = source == RowsOf::Panel || source == RowsOf::Stream ? vectors * kWidth : b_row;
        if constexpr (source != RowsOf::Stream) prefetch_row<vectors>(b, row);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v)
            x[v] = source == RowsOf::Edge && v + 1 == vectors ? Vec::load_first(b + v * kWidth, tail)
                                                              : Vec::load(b + v * kWidth);
        b += row;
    }
    RG_SIMD void follow(int steps) {
        if constexpr (rows > 1 && source != RowsOf::Stream) ahead.prefetch(steps);
        lines.ask();
    }
};

}  // namespace
}  // namespace refactor::kernel
