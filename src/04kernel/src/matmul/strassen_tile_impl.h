#pragma once
// The register tiles of `strassen_impl.h`, whose letters these are: a pair of row tiles and a pair of panels take all
// seven products in turn.

namespace refactor::kernel {
namespace {

/// Where a pair of row tiles has its operands, in the order of use, so that they are one stream of memory.
enum Operand : uint8_t { A11, A12, S2, S3, A22, S1, S4, kOperands };

/// A row of each of the next tile's halves of A, brought into L2 while this one multiplies.
struct NextRows {
    float const *upper, *lower;  ///< null: none
    int64_t right, step, row;    ///< to the other half of the depth, to the next vector, to the next row

    RG_SIMD void ask() {
        if (!upper) return;
        for (float const* half : {upper, upper + right, lower, lower + right}) __builtin_prefetch(half, 0, 2);
        upper += step, lower += step;
    }
};

/// A pair of row tiles and a pair of panels; quadrants in the order 11, 12, 21, 22.
struct PairTile {
    int64_t half;       ///< depth of a quadrant
    float const* a;     ///< [kOperands][half / vector, rounded up][rows][vector]
    float const* b[4];  ///< [half, panel]
    float* t[4];        ///< T1 … T4, likewise
    float* y[4];
    int64_t y_row, y_vector;
    Finish finish[4];
    Ahead ahead;
    NextRows next;
};

/// The next vectors of B.
template <int rows>
struct Stored {
    float const* b;
    Ahead ahead;
    TileLines<rows, kVectors> lines;
    NextRows next_rows;
    RG_SIMD void follow(int steps) { ahead.prefetch(steps), lines.ask(), lines.ask(), next_rows.ask(); }
    RG_SIMD void next(Vec (&x)[kVectors]) {
        prefetch_row<kVectors>(b, kPanel);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) x[v] = Vec::load(b + v * kWidth);
        b += kPanel;
    }
};
/// p - q (+ r), which are stored for the tiles that follow.
template <int rows, bool three>
struct Combined {
    float const *p, *q, *r;
    float* target;
    TileLines<rows, kVectors> lines;
    NextRows next_rows;
    RG_SIMD void follow(int) { lines.ask(), lines.ask(), next_rows.ask(); }
    RG_SIMD void next(Vec (&x)[kVectors]) {
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
using Sums = Vec[rows][kVectors];

/// target = begin (null: 0) + the products of an operand of `PairTile`. Not inlined: seven follow each other, and the
/// processor keeps one loop decoded rather than seven.
template <int rows, class B>
[[gnu::noinline]] void multiply_rows(Sums<rows> const* begin, Sums<rows>& target, int64_t k, float const* a,
                                     B const& operand) {
    B b = operand;
    Vec c[rows][kVectors];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) c[i][v] = begin ? (*begin)[i][v] : Vec::zero();
    auto step = [&](float const* element) __attribute__((always_inline)) {
        Vec x[kVectors];
        b.next(x);
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            Vec w = Vec::set(element[i * kWidth]);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) add_product(c[i][v], w, x[v]);
        }
    };
    for (; k >= kWidth; k -= kWidth, a += rows * kWidth) {
        b.follow(kWidth);
#pragma GCC unroll kStepsAtOnce
        for (int i = 0; i < kWidth; ++i) step(a + i);
    }
    b.follow(static_cast<int>(k));
    for (int i = 0; i < k; ++i) step(a + i);
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) target[i][v] = c[i][v];
}
/// a += b
template <int rows>
RG_SIMD void add(Sums<rows>& a, Sums<rows> const& b) {
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) a[i][v] = a[i][v] + b[i][v];
}

template <int rows>
[[gnu::noinline]] void finish_quadrant(Sums<rows>& sums, PairTile const& t, int quadrant) {
    store_tile(sums, t.y[quadrant], t.y_row, kWidth, t.finish[quadrant], t.y_vector);
}

/// `first`: makes T1 … T4.
template <int rows, bool first>
[[gnu::noinline]] void pair_tile(PairTile const& t) {
    Sums<rows> u, v, p, y;
    int64_t const operand = (t.half + kWidth - 1) / kWidth * rows * kWidth;
    auto multiply = [&](Sums<rows> const* begin, Sums<rows>& target, Operand a, auto b) __attribute__((always_inline)) {
        multiply_rows<rows>(begin, target, t.half, t.a + a * operand, b);
    };
    using Lines = TileLines<rows, kVectors>;
    Lines const none;
    auto lines_of = [&](int quadrant) __attribute__((always_inline)) {
        return Lines(t.y[quadrant], t.finish[quadrant].residual, t.y_row, t.y_vector);
    };
    Ahead ahead = t.ahead;
    // Six of the seven products ask for a row each.
    auto row = [&](int64_t i) __attribute__((always_inline)) {
        NextRows result = t.next;
        if (i >= rows) result.upper = nullptr;
        if (result.upper) result.upper += i * t.next.row, result.lower += i * t.next.row;
        return result;
    };
    auto stored = [&](float const* b, Lines const& lines, NextRows const& next) __attribute__((always_inline)) {
        Stored<rows> result{b, ahead, lines, next};
        ahead.from += t.half * ahead.step;
        return result;
    };
    using Difference = Combined<rows, false>;
    auto const& b = t.b;
    multiply(nullptr, u, A11, stored(b[0], none, row(0)));
    multiply(&u, y, A12, stored(b[2], lines_of(0), row(1)));
    finish_quadrant<rows>(y, t, 0);
    if constexpr (first) {
        multiply(&u, u, S2, Combined<rows, true>{b[3], b[1], b[0], t.t[1], none, row(2)});
        multiply(&u, v, S3, Difference{b[3], b[1], nullptr, t.t[2], none, row(3)});
        multiply(&v, y, A22, Difference{b[2], t.t[1], nullptr, t.t[3], lines_of(2), row(4)});
    } else {
        multiply(&u, u, S2, stored(t.t[1], none, row(2)));
        multiply(&u, v, S3, stored(t.t[2], none, row(3)));
        multiply(&v, y, A22, stored(t.t[3], lines_of(2), row(4)));
    }
    finish_quadrant<rows>(y, t, 2);
    if constexpr (first)
        multiply(nullptr, p, S1, Difference{b[1], b[0], nullptr, t.t[0], lines_of(3), row(5)});
    else
        multiply(nullptr, p, S1, stored(t.t[0], lines_of(3), row(5)));
    add<rows>(v, p);
    finish_quadrant<rows>(v, t, 3);
    add<rows>(p, u);
    multiply(&p, y, S4, stored(b[3], lines_of(1), row(rows)));
    finish_quadrant<rows>(y, t, 1);
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

/// Rows that are not paired, `b` their panel.
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
    Stored<rows> b{t.b, ahead, {t.y, t.finish.residual, t.y_row, t.y_vector}, {}};
    float const* a = t.a;
    for (int64_t k = t.k; k > 0; k -= t.run, a += t.run_step) accumulate(c, smaller(t.run, k), a, t.a_row, 1, b);
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
