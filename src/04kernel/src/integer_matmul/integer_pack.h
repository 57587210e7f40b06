#pragma once
#include "integer_matmul/integer_product.h"

#include <cstddef>
#include <span>

// What brings operands into the form that `integer_product.h` describes.

namespace refactor::kernel {

/// Numbers added to the elements of an operand so that they become unsigned (A) or signed (B) bytes; 0 for i16.
inline int32_t a_shift(IntegerFunctions const& f, bool is_signed) { return f.is_bytes() && is_signed ? 128 : 0; }
inline int32_t b_shift(IntegerFunctions const& f, bool is_signed) { return f.is_bytes() && !is_signed ? -128 : 0; }

/// Packed B: panels, then one sum of (shifted) elements for each column.
struct PackedSize {
    int64_t columns;  ///< rounded up to panels
    int64_t dwords;   ///< of panels

    PackedSize(IntegerFunctions const& f, int64_t n, int64_t depth)
        : columns((n + f.panel - 1) / f.panel * f.panel), dwords(columns * depth) {}
    size_t bytes() const { return static_cast<size_t>(dwords + columns) * sizeof(int32_t); }
};

/// Packs B from bytes: element k of column j is `b[k_offsets[k] + j * column_step]`, or zero where the offset is
/// negative. The number of offsets is a multiple of `group`.
void pack_columns(IntegerFunctions const& f, void const* b, bool is_signed, std::span<int64_t const> k_offsets,
                  int64_t n, int64_t column_step, int32_t* target);

/// Bytes of a row of A of `k` elements, a whole number of dwords.
inline int64_t row_bytes(IntegerFunctions const& f, int64_t k) { return (k + f.group - 1) / f.group * 4; }
/// Brings `rows` rows of k bytes into rows of `row_bytes`; `sums`, if not null, gets the sum of each (shifted) row.
void stage_rows(IntegerFunctions const& f, void const* a, bool is_signed, int64_t rows, int64_t k, uint8_t* target,
                int32_t* sums);

}  // namespace refactor::kernel
