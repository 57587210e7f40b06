#pragma once
// The register tiles of `strassen_impl.h`, whose letters these are: a pair of row tiles and a pair of panels take all
// seven products in turn.

namespace refactor::kernel {
namespace {

/// A pair of row tiles and a pair of panels; quadrants in the order 11, 12, 21, 22.
struct PairTile {
    int64_t half;  ///< depth of a quadrant
    float const* a[4];
    int64_t a_row, run, run_step;  ///< runs of at most `half`
    float const* s[4];             ///< S1 … S4, [rows, half]
    float const* b[4];             ///< [half, panel]
    float* t[4];                   ///< T1 … T4, likewise
    float *u, *v;                  ///< [rows, panel]
    float* y[4];
    int64_t y_row, y_vector;
    Finish finish[4];
    Ahead ahead;
};

/// The next vectors of B.
struct Stored {
    float const* b;
    Ahead& ahead;
    RG_SIMD void operator()(Vec (&x)[kVectors]) {
        if constexpr (kPrefetches) {
            __builtin_prefetch(ahead.from, 0, 2);
            ahead.from += ahead.step;
        }
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) x[v] = Vec::load(b + v * kWidth);
        b += kPanel;
    }
};
/// p - q (+ r), which are stored for the tiles that follow.
template <bool three>
struct Combined {
    float const *p, *q, *r;
    float* target;
    RG_SIMD void operator()(Vec (&x)[kVectors]) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
            x[v] = Vec::load(p + v * kWidth) - Vec::load(q + v * kWidth);
            if constexpr (three) x[v] = x[v] + Vec::load(r + v * kWidth);
            x[v].store(target + v * kWidth);
        }
        p += kPanel, q += kPanel, target += kPanel;
        if constexpr (three) r += kPanel;
    }
};

template <int rows>
RG_SIMD void save(Vec const (&c)[rows][kVectors], float* to) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) c[i][v].store(to + i * kPanel + v * kWidth);
}
template <int rows>
RG_SIMD void add(Vec (&c)[rows][kVectors], float const* from) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) c[i][v] = c[i][v] + Vec::load(from + i * kPanel + v * kWidth);
}
/// The products of rows of A in runs.
template <int rows, class B>
RG_SIMD void accumulate_runs(Vec (&c)[rows][kVectors], int64_t k, float const* a, int64_t a_row, int64_t run,
                             int64_t run_step, B& b) {
    for (; k > 0; k -= run, a += run_step) accumulate(c, smaller(run, k), a, a_row, 1, b);
}
template <int rows>
[[gnu::noinline]] void finish_quadrant(Vec (&c)[rows][kVectors], PairTile const& t, int quadrant) {
    store_tile(c, t.y[quadrant], t.y_row, kWidth, t.finish[quadrant], t.y_vector);
}

/// `first`: makes T1 … T4.
template <int rows, bool first>
[[gnu::noinline]] void pair_tile(PairTile const& t) {
    Vec c[rows][kVectors];
    auto prefetch = [&](int quadrant) __attribute__((always_inline)) {
        prefetch_tile<rows, kVectors>(t.y[quadrant], t.y_row, t.y_vector);
    };
    auto multiply_a = [&](int quadrant, auto b) __attribute__((always_inline)) {
        accumulate_runs(c, t.half, t.a[quadrant], t.a_row, t.run, t.run_step, b);
    };
    auto multiply_s = [&](int sum, auto b) __attribute__((always_inline)) {
        accumulate(c, t.half, t.s[sum], t.half, 1, b);
    };
    auto finish = [&](int quadrant) __attribute__((always_inline)) {
        Vec sums[rows][kVectors];
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) sums[i][v] = c[i][v];
        if (quadrant == 3) add(sums, t.v);
        finish_quadrant(sums, t, quadrant);
    };
    auto const& b = t.b;
    Ahead ahead = t.ahead;
    clear(c);
    multiply_a(0, Stored{b[0], ahead});
    save(c, t.u);
    prefetch(0);
    multiply_a(1, Stored{b[2], ahead});
    finish(0);
    clear(c);
    add(c, t.u);
    if constexpr (first)
        multiply_s(1, Combined<true>{b[3], b[1], b[0], t.t[1]});
    else
        multiply_s(1, Stored{t.t[1], ahead});
    save(c, t.u);
    if constexpr (first)
        multiply_s(2, Combined<false>{b[3], b[1], nullptr, t.t[2]});
    else
        multiply_s(2, Stored{t.t[2], ahead});
    save(c, t.v);
    prefetch(2);
    if constexpr (first)
        multiply_a(3, Combined<false>{b[2], t.t[1], nullptr, t.t[3]});
    else
        multiply_a(3, Stored{t.t[3], ahead});
    finish(2);
    clear(c);
    prefetch(3);
    if constexpr (first)
        multiply_s(0, Combined<false>{b[1], b[0], nullptr, t.t[0]});
    else
        multiply_s(0, Stored{t.t[0], ahead});
    finish(3);
    add(c, t.u);
    prefetch(1);
    multiply_s(3, Stored{b[3], ahead});
    finish(1);
}

struct PairTiles {
    void (*of[kRows + 1][2])(PairTile const&) = {};
    template <int rows>
    constexpr void fill() {
        of[rows][0] = pair_tile<rows, false>, of[rows][1] = pair_tile<rows, true>;
        if constexpr (rows > 1) fill<rows - 1>();
    }
    constexpr PairTiles() { fill<kRows>(); }
};
constexpr PairTiles kPairTiles;

/// Rows that are not paired, `b` their panel; as PairTile otherwise.
struct RestTile {
    int64_t k;
    float const *a, *b;
    int64_t a_row, run, run_step;
    float* y;
    int64_t y_row, y_vector;
    Finish finish;
};
template <int rows>
[[gnu::noinline]] void rest_tile(RestTile const& t) {
    Vec c[rows][kVectors];
    clear(c);
    Ahead ahead{reinterpret_cast<char const*>(t.b), 0};
    Stored b{t.b, ahead};
    accumulate_runs(c, t.k, t.a, t.a_row, t.run, t.run_step, b);
    store_tile(c, t.y, t.y_row, kWidth, t.finish, t.y_vector);
}
struct RestTiles {
    void (*of[kRows + 1])(RestTile const&) = {};
    template <int rows>
    constexpr void fill() {
        of[rows] = rest_tile<rows>;
        if constexpr (rows > 1) fill<rows - 1>();
    }
    constexpr RestTiles() { fill<kRows>(); }
};
constexpr RestTiles kRestTiles;

}  // namespace
}  // namespace refactor::kernel
