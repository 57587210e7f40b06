#pragma once
#include "integer_matmul/integer_product.h"

#include <cstddef>
#include <optional>
#include <span>

// What brings operands into the form that `integer_product.h` describes.

namespace refactor::kernel {

/// Numbers added to the elements of an operand so that they become the unsigned (A, but for `a_signed`) or signed (B)
/// bytes that loops multiply; 0 for i16 that are stored as such.
inline int32_t a_shift(IntegerFunctions const& f, bool is_signed) {
    return f.is_bytes() && is_signed && !f.a_signed ? 128 : 0;
}
inline int32_t b_shift(IntegerFunctions const& f, bool is_signed) {
    return (f.is_bytes() || f.narrow) && !is_signed ? -128 : 0;
}

/// Packed B: panels, then one sum of (shifted) elements for each column, then spills.
struct PackedSize {
    int64_t columns;  ///< rounded up to panels
    int64_t dwords;   ///< of all panels, as they are stored
    int64_t width;    ///< columns in a vector
    int64_t spills;   ///< as many as `count_spills` says; negative: the loops want none

    PackedSize(IntegerFunctions const& f, int64_t n, int64_t depth, int64_t spill_count = 0)
        : columns((n + f.panel - 1) / f.panel * f.panel),
          dwords(columns * depth * f.cell_bytes() / 4),
          width(f.width),
          spills(f.spills ? spill_count : -1) {}
    size_t bytes() const {
        auto table = spills < 0 ? 0 : columns / width + 1 + spills * (2 + width);
        return static_cast<size_t>(dwords + columns + table) * sizeof(int32_t);
    }
    /// From column `column` on, a whole number of vectors.
    IntegerSpills spills_of(int32_t const* packed, int64_t column) const {
        if (spills <= 0) return {};
        auto const* first = packed + dwords + columns;
        auto const* places = first + columns / width + 1;
        return {first + column / width, places, places + 2 * spills};
    }
};

/// B as bytes: [k][n], or, with offsets, a multiple of `group`, element k of column j is `b[k_offsets[k] + j *
/// column_step]`, zero where the offset is negative.
struct IntegerMatrix {
    void const* b;
    bool is_signed;
    int64_t k, n;
    std::span<int64_t const> k_offsets = {};
    int64_t column_step = 0;
};
/// Packs B. Spills, `size.spills` of them, go behind the sums of columns; `run_depth` dwords of k are of one tap.
void pack_columns(IntegerFunctions const& f, IntegerMatrix const& b, PackedSize const& size, int64_t run_depth,
                  int32_t* target);
/// Vectors of dwords of packed B of which something is taken out, see `IntegerSpills`; nothing if they are so many that
/// products of i16 are faster (of every eighth panel, then of all).
std::optional<int64_t> count_spills(IntegerFunctions const& f, IntegerMatrix const& b);
/// Time of a product over that of one whose dot product of dwords is one instruction, as measured on Zen 3: three
/// instructions, and spills, of which one of a vector costs 0.8 of a dword of the two of a tile.
double slowdown_of_spills(IntegerFunctions const& f, PackedSize const& size);

/// Dwords of k that loops take at a time so that all their tiles are alike, of runs of `depth`; 0: they have no tiles,
/// or such as gain nothing.
int64_t tile_dwords_of(IntegerFunctions const& f, int64_t runs, int64_t depth);

/// Bytes of a row of A of `k` elements, a whole number of dwords.
inline int64_t row_bytes(IntegerFunctions const& f, int64_t k) { return (k + f.group - 1) / f.group * 4; }
/// Brings `rows` rows of k bytes into rows of `row_bytes`; `sums`, if not null, gets the sum of each (shifted) row.
void stage_rows(IntegerFunctions const& f, void const* a, bool is_signed, int64_t rows, int64_t k, uint8_t* target,
                int32_t* sums);

}  // namespace refactor::kernel
