#pragma once
// Register tiles with little to do after their sums; include `product_tile.h` first and what it asks for.
#include "matmul/tile_sums.h"

namespace refactor::kernel {
namespace {

/// Whole tiles below each other, of one panel. Calls and the choice among all ways to finish would take a twentieth of
/// a product over 64, as those of attention are.
struct TileColumn {
    int64_t tiles, k;
    Element const* a;
    int64_t a_row;
    Element const* panel;
    Element* y;
    int64_t y_row;
    Element const* residual;  ///< null: none; steps as `y`
};

template <bool adds>
[[gnu::noinline]] void plain_tiles(TileColumn const& t) {
    Element const *a = t.a, *residual = t.residual;
    Element* y = t.y;
    int64_t const k = t.k, a_row = t.a_row, y_row = t.y_row;
    for (int64_t left = t.tiles; left > 0; --left) {
        Vec c[kRows][kVectors];
        clear(c);
        TileLines<kRows, kVectors> lines(y, residual, y_row);
        accumulate(c, k, a, a_row, 1,
                   PanelRows<kRows, kVectors, RowsOf::Panel>{t.panel, kPanel, kWidth, {nullptr, 0}, lines});
#pragma GCC unroll 6
        for (int i = 0; i < kRows; ++i, y += y_row) {
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) {
                Vec x = c[i][v];
                if constexpr (adds) x = x + Vec::load(residual + v * kWidth);
                x.store(y + v * kWidth);
            }
            if constexpr (adds) residual += y_row;
        }
        a += kRows * a_row;
    }
}

/// The first tiles of `rows` that need no more than `plain_tiles`.
int64_t count_plain(Block const& t, Finish const& f, int64_t rows, int64_t columns) {
    if (t.source != ProductSource::Packed || !t.near || t.a_k != 1 || columns != kPanel || rows < kRows) return 0;
    if (f.load || !f.last || t.alpha != 1 || t.bias || t.row_bias || t.activation.kind != ActivationKind::None)
        return 0;
    return rows % kRows ? (rows - 3) / kRows : rows / kRows;
}

void multiply_plain(Block const& t, int64_t tiles, int64_t row, int64_t depth, int64_t k, int64_t column,
                    Element const* panel) {
    int64_t y = row * t.y_row + column;
    Element const* residual = t.residual ? t.residual + y : nullptr;
    TileColumn plain{tiles, k, t.a + row * t.a_row + depth, t.a_row, panel, t.y + y, t.y_row, residual};
    (residual ? plain_tiles<true> : plain_tiles<false>)(plain);
}

}  // namespace
}  // namespace refactor::kernel
