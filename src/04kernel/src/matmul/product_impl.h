#pragma once
// Loops of the matrix product; include `product_tile.h` first and what it asks for, and then what has `widen_rows`.
#include "matmul/plain_tiles.h"
#include "matmul/tile_sums.h"

namespace refactor::kernel {
namespace {

#ifdef RG_BF16_PAIRS
constexpr bool kNarrows = true;
void narrow_tile(Element const* x, int64_t rows, int64_t n, uint16_t* y, int64_t y_row) {
    for (int64_t i = 0; i < rows; ++i) narrow(x + i * kPanel, n, y + i * y_row);
}
#else
constexpr bool kNarrows = false;
void narrow_tile(Element const*, int64_t, int64_t, uint16_t*, int64_t) {}
#endif

/// Of one tile; B has `b_row` between consecutive k, and `tail` columns in its last vector.
template <int rows, int vectors, RowsOf source>
[[gnu::noinline]] void tile(int64_t k, Element const* a, int64_t a_row, int64_t a_k, Element const* b, int64_t b_row,
                            Element* y, int64_t y_row, int tail, Finish const& f, Ahead ahead) {
    Vec c[rows][vectors];
    start(c, f.row_bias);
    TileLines<rows, vectors> lines(y, f.residual, y_row);
    if constexpr (kNarrows)
        if (f.lines) lines = {f.lines, nullptr, f.lines_row, f.lines_vector};
    accumulate(c, k, a, a_row, a_k, PanelRows<rows, vectors, source>{b, b_row, tail, ahead, lines});
    store_tile(c, y, y_row, tail, f);
}

using Tile = void (*)(int64_t, Element const*, int64_t, int64_t, Element const*, int64_t, Element*, int64_t, int,
                      Finish const&, Ahead);
template <RowsOf source>
struct Tiles {
    Tile of[kRows + 1][kVectors + 1] = {};
    template <int rows, int vectors>
    constexpr void fill() {
        of[rows][vectors] = tile<rows, vectors, source>;
        if constexpr (vectors > 1)
            fill<rows, vectors - 1>();
        else if constexpr (rows > 1)
            fill<rows - 1, kVectors>();
    }
    constexpr Tiles() { fill<kRows, kVectors>(); }
};
constexpr Tiles<RowsOf::Panel> kPanelTiles;
constexpr Tiles<RowsOf::Stream> kStreamTiles;
constexpr Tiles<RowsOf::Matrix> kMatrixTiles;
constexpr Tiles<RowsOf::Edge> kEdgeTiles;

/// Columns of [K, N] to [K][width of the panel].
void pack_rows(Element* target, Element const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
    for (int64_t p = 0; p < k; ++p, b += b_row, target += wide)
        for (int64_t v = 0; v < wide; v += kWidth) {
            int left = static_cast<int>(smaller(kWidth, n - v));
            (left == kWidth ? Vec::load(b + v) : Vec::load_first(b + v, left)).store(target + v);
        }
}
/// Rows of [N, K] to [K][width of the panel], a square of registers at a time.
void pack_columns(Element* target, Element const* b, int64_t b_row, int64_t n, int64_t k, int64_t wide) {
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
/// Whole rows of [K, N] come a few at a time: those of a panel alone are far apart.
[[maybe_unused]] void pack(Element* target, Element const* b, int64_t b_row, bool columns, int64_t n, int64_t k) {
    int64_t const deep = columns ? k : 8;
    for (int64_t p = 0; p < k; p += deep)
        for (int64_t j = 0; j < n; j += kPanel) {
            int64_t count = smaller(kPanel, n - j), wide = width_of(count), rows = smaller(deep, k - p);
            Element* panel = target + j * k + p * wide;
            if (columns)
                pack_columns(panel, b + j * b_row, b_row, count, rows, wide);
            else
                pack_rows(panel, b + p * b_row + j, b_row, count, rows, wide);
        }
}

/// Rows and depth that are worked on.
struct Range {
    int64_t row, rows, depth, k;
};

/// The columns from `j` of one panel, whose rows of the range begin at `b`.
void multiply_panel(Block const& t, Range const& r, int64_t j, Element const* b, int64_t b_row,
                    Element const* next = nullptr) {
    bool after;
    Finish f = finish_of(t, after);
    Element const* residual = f.residual;
    f.load = r.depth > 0, f.last = r.depth + r.k >= t.k;
    if (f.bias && !f.scalar_bias) f.bias += j;
    int64_t n = smaller(kPanel, t.n - j);
    int vectors = static_cast<int>(width_of(n) / kWidth), tail = static_cast<int>(n - (vectors - 1) * kWidth);
    auto const* tiles = t.source != ProductSource::Rows ? (r.rows <= kRows ? kStreamTiles.of : kPanelTiles.of)
                        : tail == kWidth                ? kMatrixTiles.of
                                                        : kEdgeTiles.of;
    Ahead ahead{reinterpret_cast<char const*>(next ? next : b), 0};
    if (next) {
        int64_t passes = (r.rows + kRows - 1) / kRows;
        ahead.step = (kPanel * int64_t{sizeof(Element)} + passes - 1) / passes;
    }
    bool const narrows = kNarrows && t.narrow_y;
    alignas(64) Element wide[kNarrows ? kRows * kPanel : 1];
    if (narrows) f.lines_row = t.y_row / 2, f.lines_vector = kWidth / 2;
    int64_t const plain = narrows ? 0 : count_plain(t, f, r.rows, n);
    if (plain > 0) multiply_plain(t, plain, r.row, r.depth, r.k, j, b);
    for (int64_t i = r.row + plain * kRows, end = r.row + r.rows; i < end;) {
        int64_t rows = rows_of(end - i), at = i * t.y_row + j;
        Element* y = narrows ? wide : t.y + at;
        int64_t y_row = narrows ? kPanel : t.y_row;
        if (residual) f.residual = residual + at;
        if (t.row_bias && !f.load) f.row_bias = t.row_bias + i;
        if (narrows) f.lines = reinterpret_cast<Element const*>(t.narrow_y + at);
        tiles[rows][vectors](r.k, t.a + i * t.a_row + r.depth * t.a_k, t.a_row, t.a_k, b, b_row, y, y_row, tail, f,
                             ahead);
        ahead.from += ahead.step * r.k;
        i += rows;
        if (after && f.last)
            activate_block(t, y, y_row, t.residual && t.residual_last ? t.residual + at : nullptr, rows, n);
        if (narrows) narrow_tile(wide, rows, n, t.narrow_y + at, t.y_row);
    }
}

/// The packed panel of column `j`, from `depth` on.
RG_SIMD Element const* panel_at(Block const& t, int64_t j, int64_t depth) {
    return t.b + j * (t.panel_rows ? t.panel_rows : t.k) + depth * width_of(smaller(kPanel, t.n - j));
}

/// What follows the packed panel before column `j`; null: nothing.
RG_SIMD Element const* next_panel(Block const& t, Range const& r, int64_t j) {
    if (j < t.n) return panel_at(t, j, r.depth);
    int64_t depth = r.depth + r.k;
    return depth < t.k ? t.b + depth * width_of(smaller(kPanel, t.n)) : nullptr;
}

#ifdef RG_BF16_PAIRS

/// Of f32 along k that a range of pairs holds.
RG_SIMD int64_t elements_of(Block const& t, Range const& r) { return smaller(2 * r.k, t.elements - 2 * r.depth); }

/// What is worked on of A, rounded to pairs if it is not yet; panels of B are made behind that.
void prepare_rows(Block& t, Block const& whole, Range const& r) {
    if (!whole.elements) return;
    round_rows(whole.a + r.row * whole.a_row + 2 * r.depth, whole.a_row, r.rows, elements_of(whole, r), whole.scratch,
               r.k);
    t.a_row = r.k, t.a = whole.scratch - r.row * r.k - r.depth;
    t.scratch = whole.scratch + whole.block_m * whole.block_k;
}
void pack_panel(Block const& t, Range const& r, int64_t j, int64_t n, int64_t wide) {
    if (t.source == ProductSource::PackRows)
        pack_pairs_of_rows(t.scratch, t.b + 2 * r.depth * t.b_row + j, t.b_row, n, elements_of(t, r), wide);
    else
        pack_pairs_of_columns(t.scratch, t.b + j * t.b_row + 2 * r.depth, t.b_row, n, elements_of(t, r), wide);
}

#else

void prepare_rows(Block&, Block const&, Range const&) {}
void pack_panel(Block const& t, Range const& r, int64_t j, int64_t n, int64_t wide) {
    if (t.source == ProductSource::PackRows)
        pack_rows(t.scratch, t.b + r.depth * t.b_row + j, t.b_row, n, r.k, wide);
    else
        pack_columns(t.scratch, t.b + j * t.b_row + r.depth, t.b_row, n, r.k, wide);
}

#endif

/// How a block multiplies with panels: by vectors. Others are passed to `multiply_blocks` instead.
struct ByVectors {
    /// What is worked on of A, and where panels of B are made.
    void begin(Block& t, Block const& whole, Range const& r) const { prepare_rows(t, whole, r); }
    void multiply(Block const& t, Range const& r, int64_t j, Element const* b, int64_t b_row,
                  Element const* next) const {
        multiply_panel(t, r, j, b, b_row, next);
    }
    /// Nothing that was multiplied is waiting to be stored.
    void finish() const {}
};

template <class Panels>
void multiply_blocks(Block const& whole, Panels& panels) {
    Block t = whole;
    for (int64_t i0 = 0; i0 < t.m; i0 += t.block_m) {
        Range r{i0, smaller(t.block_m, t.m - i0), 0, 0};
        do {  // once even if k is 0
            r.k = smaller(t.block_k, t.k - r.depth);
            panels.begin(t, whole, r);
            for (int64_t j = 0; j < t.n; j += kPanel) {
                int64_t n = smaller(kPanel, t.n - j), wide = width_of(n);
                Element const* b = t.scratch;
                int64_t b_row = wide;
                switch (t.source) {
                    case ProductSource::Columns:
                        break;
                    case ProductSource::Packed:
                        b = panel_at(t, j, r.depth);
                        break;
                    case ProductSource::Rows:
                        b = t.b + r.depth * t.b_row + j, b_row = t.b_row;
                        break;
                    case ProductSource::PackRows:
                    case ProductSource::PackColumns:
                        pack_panel(t, r, j, n, wide);
                        break;
                    case ProductSource::Widen:
                        widen_rows(t, j, n, r.depth, r.k, wide);
                        break;
                }
                panels.multiply(t, r, j, b, b_row,
                                t.source == ProductSource::Packed && !t.near ? next_panel(t, r, j + wide) : nullptr);
            }
            r.depth += r.k;
        } while (r.depth < t.k);
    }
    panels.finish();
}

[[maybe_unused]] void multiply(Block const& whole) {
    ByVectors vectors;
    multiply_blocks(whole, vectors);
}

}  // namespace
}  // namespace refactor::kernel
