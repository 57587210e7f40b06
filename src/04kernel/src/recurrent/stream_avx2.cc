// The step of one sequence beside input products: of 16 registers 4 × 2 + 2 · 2 accumulate, 2 hold W.
// clang-format off: the header of the instruction set comes first.
#include "simd/vec_avx2.h"
#include "recurrent/stream.h"
// clang-format on

namespace refactor::kernel {
namespace {

constexpr int kWidth = Vec::width, kRows = 4, kVectors = 2, kSets = 2, kPanel = kWidth * kVectors;
constexpr int kTile = 2;  ///< vectors of a tile of the input products

RG_SIMD int64_t clamp(int64_t x, int64_t high) { return x < 0 ? 0 : x < high ? x : high; }

/// The state product of one panel: sums, and where it has got to.
struct State {
    Vec sums[kSets][kVectors];
    float const *h, *r;

    RG_SIMD void add(int set) {
        Vec x = Vec::set(*h);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[set][v] = fma(x, Vec::load(r + v * kWidth), sums[set][v]);
        ++h, r += kPanel;
    }
};

/// `count` rows of W for a tile of input products, each beside `states` rows of R.
template <int states>
RG_SIMD void advance(int64_t count, Vec (&g)[kRows][kTile], float const*& x, int64_t x_row, float const*& w, State& s) {
    for (; count > 0; --count) {
        Vec b[kTile] = {Vec::load(w), Vec::load(w + kWidth)};
        float const* last = x + 3 * x_row;
#pragma GCC unroll 4
        for (int i = 0; i < kRows; ++i) {
            Vec a = Vec::set(i < 3 ? x[i * x_row] : *last);
            g[i][0] = fma(a, b[0], g[i][0]), g[i][1] = fma(a, b[1], g[i][1]);
            if constexpr (states > 0)
                if ((i + 1) % (kRows / states) == 0) s.add((i / (kRows / states)) % kSets);
        }
        ++x, w += kPanel;
    }
}

/// One tile of input products beside at most `states` rows of R; returns how many of these it took.
RG_SIMD int64_t multiply_inputs(StreamBlock const& t, int64_t column, int64_t states, State& s) {
    Vec g[kRows][kTile];
    float* y = t.gx + column;
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kTile; ++v) g[i][v] = Vec::load((t.from ? y + i * t.gx_row : t.bias + column) + v * kWidth);
    float const* x = t.x + t.from;
    float const* w = t.w + column / kPanel * kPanel * t.x_depth + t.from * kPanel + column % kPanel;
    // Four rows of R take about as long to arrive as a tile of W and they take to multiply; with less of R left, two.
    int64_t rows = t.to - t.from, fours = clamp((states - 2 * rows) / 2, rows);
    int64_t twos = clamp((states - 4 * fours) / 2, rows - fours);
    advance<4>(fours, g, x, t.x_row, w, s);
    advance<2>(twos, g, x, t.x_row, w, s);
    advance<0>(rows - fours - twos, g, x, t.x_row, w, s);
#pragma GCC unroll 4
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kTile; ++v) g[i][v].store(y + i * t.gx_row + v * kWidth);
    return 4 * fours + 2 * twos;
}

void multiply(StreamBlock const& t) {
    for (int64_t j = 0; j < t.panels; ++j) {
        State s;
        s.h = t.h, s.r = t.r + j * kPanel * t.depth;
#pragma GCC unroll 2
        for (int set = 0; set < kSets; ++set)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) s.sums[set][v] = Vec::zero();
        int64_t left = t.depth;
        if (t.beside)
            for (int64_t v = 0; v < kVectors; v += kTile)
                left -= multiply_inputs(t, j * kPanel + v * kWidth, left / ((kVectors - v) / kTile), s);
        for (; left >= kSets; left -= kSets)
#pragma GCC unroll 2
            for (int set = 0; set < kSets; ++set) s.add(set);
        for (; left > 0; --left) s.add(0);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) (s.sums[0][v] + s.sums[1][v]).store(t.y + j * kPanel + v * kWidth);
    }
}

constexpr StreamFunctions kFunctions{kRows, multiply};

}  // namespace

StreamFunctions const& stream_functions_avx2() { return kFunctions; }

}  // namespace refactor::kernel
