#include "matmul/strassen_plan.h"

#include "common/cpu_features.h"

#include <algorithm>

namespace refactor::kernel {

namespace {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// Multiply-adds of a part, and what else takes as long as so many: operands of A, sums of B, and for each quadrant U,
/// V, Y and what a tile begins and ends with. `blocks`: of the depth.
///
/// Zen 5: fitted to products of 64 to 257 rows with weights from memory; every block but the first costs half of what
/// the first one does at Y.
///
/// Otherwise (measured on Zen 4, where a vector of products takes a cycle, and before AVX-512 made sums of B anew): the
/// first rows make the sums of B, 6 cycles a vector; the operands of A take 8; Y takes 14 (depths of 96 are level or
/// behind, of 128 ahead); an odd row as long as three. Where vectors of AVX-512 take half a cycle, the cycles count
/// double, and products are up to a fifth slower than without halves (measured on Emerald Rapids).
double work_of(int64_t rows, int64_t columns, int64_t depth, int64_t blocks, bool wide) {
    auto const& cpu = cpu_features();
    auto m = static_cast<double>(rows) / 2, n = static_cast<double>(columns) / 2, k = static_cast<double>(depth) / 2;
    auto odd = rows % 2 ? 8 * n * k : 0;
    if (wide && cpu.whole_512)
        return 7 * m * n * k + 64 * m * k + 24 * n * k + 40 * static_cast<double>(blocks + 1) * m * n + odd;
    bool const fast = wide && !cpu.halves_512;
    double const pace = fast ? 1.2 : 1, cycle = fast ? 2 : 1;
    return pace * 7 * m * n * k + cycle * (4 * 6 * n * k + 4 * 8 * m * k + 4 * 14 * m * n) + odd;
}

}  // namespace

/// Depth: what a pair of row tiles reads of B (7 × k/2 × panel) takes at most 3/4 of L2; with AVX-512 half of that if Y
/// has to be loaded again anyway, so that L2 holds the operands of A beside what is asked for ahead. Rows: the operands
/// that A makes (7/4 m × k) may be larger than L2, for each pair of panels reads them once and in order; half as many
/// rows with AVX-512, whose narrow tiles read them twice. Several whole matrices that share B and fit into a block make
/// one of more rows. Parts: the best of cutting rows and pairs of panels.
StrassenPlan strassen_plan(ProductFunctions const& functions, MatMulShape const& shape, int threads, bool blocked) {
    threads = std::max(1, threads);
    auto floats = static_cast<int64_t>(cpu_features().l2 / sizeof(float));
    auto deepest = std::max<int64_t>(64, floats * 3 / 14 / functions.panel);
    bool const narrow = functions.width == 16;  // tiles of half a panel, for which T2 alone is stored
    if (narrow && shape.k > deepest) deepest /= 2;
    auto block_k = round_up(ceil_div(shape.k, ceil_div(shape.k, deepest)), blocked || narrow ? 2 * functions.width : 2);
    auto most = std::max<int64_t>(4 * functions.rows, floats / (narrow ? 2 : 1) / block_k);
    bool gathers = !blocked && shape.batches > 1 && shape.m <= most && shape.folds_rows(false);
    auto batches = gathers ? 1 : shape.batches, m = gathers ? shape.m * shape.batches : shape.m;
    auto row_unit = gathers ? shape.m : std::min<int64_t>(2 * functions.rows, m);
    int64_t pair = 2 * functions.panel, pairs = ceil_div(shape.n, pair);
    StrassenPlan best{};
    // About four parts a thread at most: more only cost.
    auto most_parts = threads == 1 ? 1 : std::max<int64_t>(1, 4 * threads / batches);
    for (int64_t across = 1; across <= std::min(pairs, most_parts); ++across)
        for (int64_t down = 1; across * down <= most_parts; ++down) {
            auto rows = round_up(ceil_div(m, down), row_unit), columns = ceil_div(pairs, across) * pair;
            StrassenPlan plan{batches, m,       rows, columns, ceil_div(m, rows), ceil_div(shape.n, columns), 0,
                              0,       block_k, 0,    0};
            auto rounds = ceil_div(batches * plan.row_parts * plan.column_parts, threads);
            // Threads do not begin together, nor run equally fast: a twentieth of a part is lost.
            plan.work =
                (static_cast<double>(rounds) + (threads > 1 ? 0.05 : 0)) *
                work_of(std::min(rows, m), std::min(columns, shape.n), shape.k, ceil_div(shape.k, block_k), narrow);
            if (best.work == 0 || plan.work < best.work) best = plan;
        }
    auto rows = std::min(best.rows, m);
    best.group = gathers ? shape.m : ceil_div(rows, ceil_div(rows, most));
    best.block_m = gathers ? std::min(rows, most / shape.m * shape.m) : best.group;
    auto pair_floats = functions.width + 7 * round_up(block_k / 2, functions.width);
    auto scratch = (narrow ? 1 : 4) * block_k / 2 * functions.panel + (best.block_m / 2) * pair_floats;
    best.scratch_bytes = static_cast<size_t>(round_up(scratch * 4, 64));
    return best;
}

}  // namespace refactor::kernel
