#pragma once
// The register tiles of `strassen_impl.h`, whose letters these are: a pair of row tiles and a pair of panels take all
// seven products in turn.

namespace refactor::kernel {
namespace {

/// A tile: 6 × 2 of 16 registers, 12 × 2 of 32. So narrow a tile of AVX-512 reads few enough vectors of B that T1, T3
/// and T4 can be made anew for each pair of row tiles, on the ports that add where processors have them beside those
/// that multiply, instead of written and read again: 2 to 4 loads and 2 to 4 sums for 24 multiply-adds.
constexpr int kPairRows = kLong ? 12 : 6, kPairVectors = 2;
constexpr bool kKeepsSums = !kLong;  ///< T1, T3 and T4 are stored as T2 is

/// Where a pair of row tiles has its operands, in the order of use, so that they are one stream of memory.
enum Operand : uint8_t { A11, A12, S2, S3, A22, S1, S4, kOperands };

/// Some rows of each of the next tile's halves of A, brought into L2 while this one multiplies.
struct NextRows {
    float const *upper, *lower;
    int64_t right, step, row;  ///< to the other half of the depth, to the next vector, to the next row
    int64_t rows;              ///< 0: none

    RG_SIMD void ask() {
        for (int64_t i = 0; i < rows; ++i)
            for (float const* half : {upper, upper + right, lower, lower + right})
                __builtin_prefetch(half + i * row, 0, 2);
        upper += step, lower += step;
    }
    /// What one of six products asks for.
    RG_SIMD NextRows part(int product) const {
        int64_t const most = (kPairRows + 5) / 6, first = product * most;
        NextRows result = *this;
        result.upper += first * row, result.lower += first * row;
        result.rows = first < rows ? smaller(most, rows - first) : 0;
        return result;
    }
};

/// Rows of the vectors of B that follow, in two panels, brought into L2 while others are multiplied.
struct NextVectors {
    float const* panels[2];
    int64_t rows, at_once;  ///< asked for by one product in all, and in `kWidth` steps

    RG_SIMD void ask() {
        for (int64_t i = 0; i < at_once && rows > 0; ++i, --rows)
#pragma GCC unroll 2
            for (int q = 0; q < 2; ++q) {
#pragma GCC unroll 2
                for (int line = 0; line < kPairVectors * kWidth; line += 16) __builtin_prefetch(panels[q] + line, 0, 2);
                panels[q] += kPanel;
            }
    }
    /// What one of seven products asks for.
    RG_SIMD NextVectors part(int product) const {
        NextVectors result = *this;
        int64_t first = product * rows / 7;
        result.rows = (product + 1) * rows / 7 - first;
        result.panels[0] += first * kPanel, result.panels[1] += first * kPanel;
        return result;
    }
};

/// A pair of row tiles and the same columns of a pair of panels; quadrants in the order 11, 12, 21, 22.
struct PairTile {
    int64_t half;       ///< depth of a quadrant
    float const* a;     ///< [kOperands][half / vector, rounded up][rows][vector]
    float const* b[4];  ///< of [half, panel]
    float* t[4];        ///< T1 … T4, or T2 alone, likewise
    float* y[4];
    int64_t y_row, y_vector;
    Finish finish[4];
    NextVectors ahead;
    NextRows next;
};

/// The next vectors of B.
template <int rows>
struct Stored {
    float const* b;
    NextVectors ahead;
    TileLines<rows, kPairVectors> lines;
    NextRows next_rows;
    RG_SIMD void follow() { ahead.ask(), lines.ask(), lines.ask(), next_rows.ask(); }
    RG_SIMD void next(Vec (&x)[kPairVectors]) {
        prefetch_row<kPairVectors>(b, kPanel);
#pragma GCC unroll 2
        for (int v = 0; v < kPairVectors; ++v) x[v] = Vec::load(b + v * kWidth);
        b += kPanel;
    }
};
/// p - q (+ r), which may be stored for the tiles that follow.
template <int rows, bool three, bool keeps>
struct Combined {
    float const *p, *q, *r;
    float* target;
    NextVectors ahead;
    TileLines<rows, kPairVectors> lines;
    NextRows next_rows;
    RG_SIMD void follow() { ahead.ask(), lines.ask(), lines.ask(), next_rows.ask(); }
    RG_SIMD void next(Vec (&x)[kPairVectors]) {
        if constexpr (!three) prefetch_row<kPairVectors>(p, kPanel), prefetch_row<kPairVectors>(q, kPanel);
#pragma GCC unroll 2
        for (int v = 0; v < kPairVectors; ++v) {
            x[v] = Vec::load(p + v * kWidth) - Vec::load(q + v * kWidth);
            if constexpr (three) x[v] = x[v] + Vec::load(r + v * kWidth);
            if constexpr (keeps) x[v].store(target + v * kWidth);
        }
        p += kPanel, q += kPanel;
        if constexpr (three) r += kPanel;
        if constexpr (keeps) target += kPanel;
    }
};

template <int rows>
using Sums = Vec[rows][kPairVectors];

/// target = begin (null: 0) + the products of an operand of `PairTile`. Not inlined: seven follow each other, and the
/// processor keeps one loop decoded rather than seven.
template <int rows, class B>
[[gnu::noinline]] void multiply_rows(Sums<rows> const* begin, Sums<rows>& target, int64_t k, float const* a,
                                     B const& operand) {
    B b = operand;
    Vec c[rows][kPairVectors];
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kPairVectors; ++v) c[i][v] = begin ? (*begin)[i][v] : Vec::zero();
    auto step = [&](float const* element) __attribute__((always_inline)) {
        Vec x[kPairVectors];
        b.next(x);
#pragma GCC unroll 12
        for (int i = 0; i < rows; ++i) {
            Vec w = Vec::set(element[i * kWidth]);
#pragma GCC unroll 2
            for (int v = 0; v < kPairVectors; ++v) add_product(c[i][v], w, x[v]);
        }
    };
    for (; k >= kWidth; k -= kWidth, a += rows * kWidth) {
        b.follow();
#pragma GCC unroll kStepsAtOnce
        for (int i = 0; i < kWidth; ++i) step(a + i);
    }
    b.follow();
    for (int i = 0; i < k; ++i) step(a + i);
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kPairVectors; ++v) target[i][v] = c[i][v];
}
/// a += b
template <int rows>
RG_SIMD void add(Sums<rows>& a, Sums<rows> const& b) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kPairVectors; ++v) a[i][v] = a[i][v] + b[i][v];
}

template <int rows>
[[gnu::noinline]] void finish_quadrant(Sums<rows>& sums, PairTile const& t, int quadrant) {
    store_tile(sums, t.y[quadrant], t.y_row, kWidth, t.finish[quadrant], t.y_vector);
}

/// `first`: makes what is stored of T1 … T4.
template <int rows, bool first>
[[gnu::noinline]] void pair_tile(PairTile const& t) {
    Sums<rows> u, v, p, y;
    int64_t const operand = (t.half + kWidth - 1) / kWidth * rows * kWidth;
    auto multiply = [&](Sums<rows> const* begin, Sums<rows>& target, Operand a, auto b) __attribute__((always_inline)) {
        multiply_rows<rows>(begin, target, t.half, t.a + a * operand, b);
    };
    using Lines = TileLines<rows, kPairVectors>;
    Lines const none;
    auto lines_of = [&](int quadrant) __attribute__((always_inline)) {
        return Lines(t.y[quadrant], t.finish[quadrant].residual, t.y_row, t.y_vector);
    };
    int product = 0;
    auto next_ahead = [&]() __attribute__((always_inline)) { return t.ahead.part(product++); };
    auto stored = [&](float const* b, Lines const& lines, NextRows const& next) __attribute__((always_inline)) {
        return Stored<rows>{b, next_ahead(), lines, next};
    };
    auto const& b = t.b;
    // T1, T3 and T4 are differences of two of B's quadrants and T2.
    auto difference = [&](Sums<rows> const* begin, Sums<rows>& target, Operand a, int kept, float const* from,
                          float const* less, Lines const& lines, NextRows const& next) __attribute__((always_inline)) {
        if constexpr (first || !kKeepsSums)
            multiply(begin, target, a,
                     Combined<rows, false, kKeepsSums>{from, less, nullptr, t.t[kept], next_ahead(), lines, next});
        else
            multiply(begin, target, a, stored(t.t[kept], lines, next));
    };
    multiply(nullptr, u, A11, stored(b[0], none, t.next.part(0)));
    multiply(&u, y, A12, stored(b[2], lines_of(0), t.next.part(1)));
    finish_quadrant<rows>(y, t, 0);
    if constexpr (first)
        multiply(&u, u, S2, Combined<rows, true, true>{b[3], b[1], b[0], t.t[1], next_ahead(), none, t.next.part(2)});
    else
        multiply(&u, u, S2, stored(t.t[1], none, t.next.part(2)));
    difference(&u, v, S3, 2, b[3], b[1], none, t.next.part(3));
    difference(&v, y, A22, 3, b[2], t.t[1], lines_of(2), t.next.part(4));
    finish_quadrant<rows>(y, t, 2);
    difference(nullptr, p, S1, 0, b[1], b[0], lines_of(3), t.next.part(5));
    add<rows>(v, p);
    finish_quadrant<rows>(v, t, 3);
    add<rows>(p, u);
    multiply(&p, y, S4, stored(b[3], lines_of(1), {}));
    finish_quadrant<rows>(y, t, 1);
}

struct PairTiles {
    void (*of[kPairRows + 1][2])(PairTile const&) = {};
    template <int rows>
    constexpr void fill() {
        of[rows][0] = pair_tile<rows, false>, of[rows][1] = pair_tile<rows, true>;
        if constexpr (rows > 1) fill<rows - 1>();
    }
    constexpr PairTiles() { fill<kPairRows>(); }
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
    PanelRows<rows, kVectors, RowsOf::Panel> b{
        t.b, kPanel, kWidth, ahead, {t.y, t.finish.residual, t.y_row, t.y_vector}};
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
