#pragma once
// One level of Strassen's algorithm over panels of a constant B; include `product_impl.h` first. Seven products of half
// the rows, depth and columns do the work of eight. The form with the fewest sums is that of S. Winograd, "On
// Multiplication of 2 × 2 Matrices", Linear Algebra and its Applications 4 (1971):
//
//   S1 = A21 + A22   S2 = S1 - A11   S3 = A11 - A21   S4 = A12 - S2
//   T1 = B12 - B11   T2 = B22 - T1   T3 = B22 - B12   T4 = B21 - T2
//   Y11 = A11 B11 + A12 B21
//   U   = A11 B11 + S2 T2      V = U + S3 T3
//   Y21 = V + A22 T4           Y22 = V + S1 T1        Y12 = U + S1 T1 + S4 B22
//
// A tile takes all seven in turn, so that Y is touched as often as in a direct product. What it rounds is measured by
// the larger of two paired rows, so that rows of other sizes are multiplied directly.
#include "matmul/strassen_tile_impl.h"

namespace refactor::kernel {
namespace {

/// Row `i` is paired with row `i + pairs_of(rows)`; what is left over is multiplied as ever: an odd row, or as many as
/// fit into one tile if the others then fill theirs.
RG_SIMD int64_t pairs_of(int64_t rows) {
    int64_t full = rows / 2 / kRows * kRows, left = rows - 2 * full;
    return left <= kRows || (rows & 1) ? full : rows / 2;
}

/// Where a row of A has element `k`.
RG_SIMD int64_t place_of(ProductBlock const& t, int64_t k) { return k / t.run * t.run_step + k % t.run; }

/// Between two vectors of a row of A.
RG_SIMD int64_t vector_step(ProductBlock const& t) { return t.run == kWidth ? t.run_step : kWidth; }

/// The rows and depth that are worked on, and their part of the scratch.
struct PairBlock {
    Range range;
    int64_t half;  ///< of the depth
    float* t;      ///< T1 … T4, or T2 alone
    float* a;      ///< for each pair of row tiles: its rows, negative if they are not combined, and its operands

    RG_SIMD int64_t operands(int64_t pairs) const {
        return kOperands * pairs * ((half + kWidth - 1) / kWidth * kWidth);
    }
    /// From the left half of A to the right one.
    RG_SIMD int64_t right(ProductBlock const& block) const {
        return place_of(block, range.depth + half) - place_of(block, range.depth);
    }
};

/// Of the norms of two rows that are paired: five bits of the smaller one are lost at most.
constexpr float kLargestRatio = 32;

/// Whether two rows are of a size, finite and numbers.
RG_SIMD bool are_alike(ProductBlock const& t, PairBlock const& block, float const* upper, float const* lower) {
    int64_t const right = block.right(t), vector = vector_step(t);
    Vec squares[4] = {Vec::zero(), Vec::zero(), Vec::zero(), Vec::zero()};
    for (int64_t p = 0; p < block.half; p += kWidth, upper += vector, lower += vector) {
        int left = static_cast<int>(smaller(kWidth, block.half - p));
        Vec x[4] = {load_part(upper, left), load_part(upper + right, left), load_part(lower, left),
                    load_part(lower + right, left)};
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) add_product(squares[q], x[q], x[q]);
    }
    float a = sum(squares[0] + squares[1]), b = sum(squares[2] + squares[3]);
    float most = kLargestRatio * kLargestRatio;
    return a <= most * b && b <= most * a && a + b <= __FLT_MAX__;
}

/// How many of `rows` pairs make a tile that is combined, from the first on, or, negative, one that is not: all of them
/// if they are of one kind or if more than a quarter are not alike, for short tiles read as much of B as long ones.
RG_SIMD int64_t alike_rows(ProductBlock const& t, PairBlock const& block, float const* upper, float const* lower,
                           int64_t rows) {
    bool alike[kPairRows];
    int64_t apart = 0, first = 0;
    for (int64_t i = 0; i < rows; ++i) {
        alike[i] = are_alike(t, block, upper + i * t.a_row, lower + i * t.a_row);
        apart += !alike[i];
    }
    if (apart == 0) return rows;
    if (apart * 4 > rows) return -rows;
    while (first < rows && alike[first] == alike[0]) ++first;
    return alike[0] ? first : -first;
}

template <class F>
RG_SIMD void for_groups(ProductBlock const& t, Range const& r, F&& f) {
    for (int64_t i = r.row, end = r.row + r.rows; i < end; i += t.group) f(i, smaller(t.group, end - i));
}

/// The operands of one pair of row tiles, whose rows begin at `upper` and `lower`, in the order in which they are
/// stored.
RG_SIMD void combine_rows(ProductBlock const& t, PairBlock const& block, float const* upper, float const* lower,
                          int64_t rows, float* target) {
    int64_t const half = block.half, operand = block.operands(rows) / kOperands;
    int64_t const right = block.right(t), vector = vector_step(t);
    for (int64_t p = 0; p < half; p += kWidth, upper += vector, lower += vector) {
        int left = static_cast<int>(smaller(kWidth, half - p));
        float const *u = upper, *l = lower;
        for (int64_t i = 0; i < rows; ++i, u += t.a_row, l += t.a_row, target += kWidth) {
            for (float const* x : {u, u + right, l, l + right}) __builtin_prefetch(x + vector);
            Vec a11 = load_part(u, left), a12 = load_part(u + right, left);
            Vec a21 = load_part(l, left), a22 = load_part(l + right, left);
            Vec s1 = a21 + a22, s2 = s1 - a11;
            a11.store(target + A11 * operand), a12.store(target + A12 * operand), a22.store(target + A22 * operand);
            s1.store(target + S1 * operand), s2.store(target + S2 * operand);
            (a11 - a21).store(target + S3 * operand), (a12 - s2).store(target + S4 * operand);
        }
    }
}

/// What follows the clamp of a tile, on vectors that are `y_vector` apart.
void activate_tile(ProductBlock const& t, int64_t at, int64_t rows, int64_t vectors) {
    float const* residual = t.residual && t.residual_last ? t.residual + at : nullptr;
    for (int64_t v = 0; v < vectors; ++v)
        activate_block(t, t.y + at + v * t.y_vector, t.y_row, residual ? residual + v * t.y_vector : nullptr, rows,
                       kWidth);
}

/// The vectors of two panels that follow those of a pair, which its tiles ask for.
struct NextPair {
    float const* panels[2];
    int64_t rows, done = 0;  ///< of a panel, 0: nothing follows; asked for

    /// What one of `tiles` asks for in seven products of `steps`.
    NextVectors part(int64_t steps, int64_t tiles) {
        int64_t quota = smaller((rows + tiles - 1) / tiles, rows - done), calls = 7 * ((steps + kWidth - 1) / kWidth);
        NextVectors result{{panels[0] + done * kPanel, panels[1] + done * kPanel}, quota, (quota + calls - 1) / calls};
        done += quota;
        return result;
    }
};

/// What follows vector `v` of the pair from column `j`: the next ones, those of the next pair, or of the next depth.
NextPair next_pair(ProductBlock const& t, PairBlock const& block, int64_t j, int64_t v) {
    int64_t const depth = block.range.depth, next_depth = depth + block.range.k;
    float const* panel = t.b + j * t.k + depth * kPanel;
    NextPair next{{panel, panel}, 0};
    auto follow = [&](float const* first) { next = {{first, first + kPanel * t.k}, block.range.k}; };
    if (v + kPairVectors < kVectors)
        follow(panel + (v + kPairVectors) * kWidth);
    else if (j + 4 * kPanel <= t.n)
        follow(panel + 2 * kPanel * t.k);
    else if (j + 2 * kPanel == t.n && next_depth < t.k)
        follow(t.b + next_depth * kPanel);
    return next;
}

/// Rows of the next of tiles that are about as high as each other.
RG_SIMD int64_t pair_rows_of(int64_t left) {
    int64_t tiles = (left + kPairRows - 1) / kPairRows;
    return (left + tiles - 1) / tiles;
}

/// Two panels of columns.
struct PairOfPanels {
    ProductBlock const& t;
    PairBlock const& block;
    int64_t j;       ///< first column
    int64_t column;  ///< where Y has it
    float const* b;
    bool activates = false;  ///< `activate_block` follows
    Finish finish;           ///< of the first column

    PairOfPanels(ProductBlock const& t_, PairBlock const& block_, int64_t j_)
        : t(t_),
          block(block_),
          j(j_),
          column(j_ / kWidth * t_.y_vector),
          b(t_.b + j_ * t_.k + block_.range.depth * kPanel),
          finish(finish_of(t_, activates)) {
        finish.load = block.range.depth > 0, finish.last = block.range.depth + block.range.k >= t.k;
        activates = activates && finish.last;
        if (finish.bias && !finish.scalar_bias) finish.bias += j;
    }
    /// Likewise, for columns `vectors` further and rows whose first has its results at `at`.
    RG_SIMD Finish finish_at(int64_t at, int64_t vectors) const {
        Finish result = finish;
        if (result.residual) result.residual = t.residual + at;
        if (result.bias && !result.scalar_bias) result.bias += vectors * kWidth;
        return result;
    }
    /// Rows that are not combined, every `step`-th one.
    void multiply_rest(int64_t row, int64_t rows, int64_t step) const;
    /// The columns of tiles that begin at vector `v` of either panel.
    void multiply_pairs(int64_t v, NextPair next) const;
};

void PairOfPanels::multiply_rest(int64_t row, int64_t count, int64_t step) const {
    int64_t const run = smaller(t.run, block.range.k), y_row = step * t.y_row;
    for (int64_t i = row, left = count; left > 0;) {
        int64_t rows = rows_of(left);
        float const* a = t.a + i * t.a_row + place_of(t, block.range.depth);
        for (int64_t q = 0; q < 2; ++q) {
            int64_t at = i * t.y_row + column + q * t.y_vector * kVectors;
            kRestTiles.of[rows]({block.range.k, a, b + q * kPanel * t.k, step * t.a_row, run, t.run_step, t.y + at,
                                 y_row, t.y_vector, finish_at(at, q * kVectors)});
            for (int64_t r = 0; activates && r < rows; ++r) activate_tile(t, at + r * y_row, 1, kVectors);
        }
        i += rows * step, left -= rows;
    }
}

void PairOfPanels::multiply_pairs(int64_t v, NextPair next) const {
    bool first = true;
    float* a = block.a;
    int64_t const half = block.half, quadrant = half * kPanel;
    PairTile tile{half, nullptr, {}, {}, {}, t.y_row, t.y_vector, {}, {}, {}};
    for (int q = 0; q < 4; ++q) {
        tile.b[q] = b + (q & 1) * kPanel * t.k + (q >> 1) * quadrant + v * kWidth;
        tile.t[q] = block.t + (kKeepsSums ? (q + 3) % 4 * quadrant : 0) + v * kWidth;
    }
    for_groups(t, block.range, [&](int64_t row, int64_t group) {
        int64_t pairs = pairs_of(group);
        for (int64_t i = 0, rows; i < pairs; i += rows, a += kWidth + block.operands(rows)) {
            bool const begins = j == 0 && v == 0;
            float const* upper = t.a + (row + i) * t.a_row + place_of(t, block.range.depth);
            float const* lower = upper + pairs * t.a_row;
            if (begins) *a = static_cast<float>(alike_rows(t, block, upper, lower, pair_rows_of(pairs - i)));
            rows = static_cast<int64_t>(*a < 0 ? -*a : *a);
            if (*a < 0) {
                // Each with its counterpart, or with those beside it.
                if (v == 0 && rows == 1) multiply_rest(row + i, 2, pairs);
                for (int64_t r : {row + i, row + i + pairs})
                    if (v == 0 && rows > 1) multiply_rest(r, rows, 1);
                continue;
            }
            tile.next = {nullptr, nullptr, block.right(t), vector_step(t), t.a_row, 0}, tile.a = a + kWidth;
            if (begins) {
                combine_rows(t, block, upper, lower, rows, a + kWidth);
                tile.next.upper = upper + rows * t.a_row, tile.next.lower = lower + rows * t.a_row;
                tile.next.rows = i + rows < pairs ? pair_rows_of(pairs - i - rows) : 0;
            }
            int64_t at[4];
            tile.ahead = next.part(half, (pairs + kPairRows - 1) / kPairRows);
            for (int q = 0; q < 4; ++q) {
                int64_t vector = (q & 1) * kVectors + v;
                at[q] = (row + i + (q >> 1) * pairs) * t.y_row + column + vector * t.y_vector;
                tile.y[q] = t.y + at[q], tile.finish[q] = finish_at(at[q], vector);
            }
            kPairTiles.of[rows][first](tile);
            first = false;
            for (int q = 0; activates && q < 4; ++q) activate_tile(t, at[q], rows, kPairVectors);
        }
        if (v == 0) multiply_rest(row + 2 * pairs, group - 2 * pairs, 1);
    });
}

void multiply_strassen(ProductBlock const& t) {
    int64_t paired = t.n / (2 * kPanel) * (2 * kPanel);
    for (int64_t i0 = 0; i0 < t.m; i0 += t.block_m) {
        Range r{i0, smaller(t.block_m, t.m - i0), 0, 0};
        for (; r.depth < t.k; r.depth += r.k) {
            r.k = smaller(t.block_k, t.k - r.depth);
            PairBlock block{r, r.k / 2, t.scratch, t.scratch + (kKeepsSums ? 4 : 1) * r.k / 2 * kPanel};
            for (int64_t j = 0; j < paired; j += 2 * kPanel) {
                PairOfPanels panels(t, block, j);
                for (int64_t v = 0; v < kVectors; v += kPairVectors)
                    panels.multiply_pairs(v, next_pair(t, block, j, v));
            }
            for (int64_t j = paired; j < t.n; j += kPanel) {
                int64_t wide = width_of(smaller(kPanel, t.n - j));
                multiply_panel(t, r, j, t.b + j * t.k + r.depth * wide, wide);
            }
        }
    }
}

constexpr ProductFunctions kFunctions{kWidth,           kRows,           kPanel,
                                      multiply,         multiply_dots,   multiply_streamed,
                                      multiply_columns, RG_MULTIPLY_FEW, multiply_strassen,
                                      multiply_flat,    kFlatMost,       pack};

}  // namespace
}  // namespace refactor::kernel
