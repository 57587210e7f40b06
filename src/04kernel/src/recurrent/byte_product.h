#pragma once
#include <cstdint>

// The boundary between the walk over a sequence (baseline code) and products of rounded rows with weights of bytes (one
// file for each instruction set).
//
// A product of few rows is bound by how fast the weights arrive, so that they stay bytes in memory. B lies in panels of
// `panel` columns, [quads][panel][4], where a quad is four consecutive k, with anything behind the last k;
// `flips_even`: bytes of even k are B plus 128. A is rows of quads, four bytes each where the processor multiplies
// those (VNNI), else eight: i16 of k 0, 2, 1, 3, which meet the lower and the upper bytes of B's words.

namespace refactor::kernel {

/// Y = sums · scales + bias, with
/// sums(i, j) = A·B(i, j) + row_start[i] - row_zero[i] * column_sum[j] - row_sum[i] * column_zero[j].
struct ByteProduct {
    int64_t rows, columns;  ///< columns: whole panels
    uint8_t const* a;
    int64_t a_row;  ///< bytes between rows
    float const* row_scale;
    int32_t const *row_start, *row_zero, *row_sum;
    int64_t depth;  ///< quads
    int8_t const* b;
    float const* column_scale;
    int32_t const *column_zero, *column_sum;
    float const* bias;  ///< null: none
    float* y;
    int64_t y_row;
};

struct ByteProductFunctions {
    int width, panel;
    int quad_bytes;  ///< of A
    bool flips_even;
    void (*multiply)(ByteProduct const&);
    /// Least and largest of `n` numbers and zero; `low` is NaN if one is infinite or NaN.
    void (*bounds)(float const* row, int64_t n, float* low, float* high);
    /// Rounds `n` numbers to codes from 0 to 255, with zeros up to a whole quad of A, and says their sum and
    /// `row_start`.
    void (*encode)(float const* row, int64_t n, float scale, int32_t zero, uint8_t* codes, int32_t* sum,
                   int32_t* start);
};

ByteProductFunctions const& byte_product_functions_avx2();
ByteProductFunctions const& byte_product_functions_avx2vnni();
ByteProductFunctions const& byte_product_functions_avx512vnni();

}  // namespace refactor::kernel
