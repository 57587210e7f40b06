#pragma once
#include "integer_matmul/integer_depthwise.h"

// The boundary between what integer products and convolutions prepare (baseline code) and the loops over it (one file
// for each instruction set).
//
// Both operands are consumed in dwords of `group` consecutive k: four bytes, A unsigned and B signed, where the
// processor multiplies those (VNNI; AVX2's vpmaddubsw, whose sums of two saturate, with weights of which what may not
// fit has been taken out, see `IntegerSpills`), else two i16. Operands of the other
// sign are shifted by 128, which zero points shifted alike undo; tiles take A of either sign. B lies in panels of
// `panel` columns, [dwords][panel], zeros behind the last column and the last k; A in rows, anything behind the last k.
// Where rows are few, a product takes the time in which B arrives: `narrow` loops keep its two i16 as two bytes,
// widened on the way.

namespace refactor::kernel {

/// What was taken out of B's dwords so that no sum of two products leaves i16, whatever the bytes of A: dwords of their
/// own, multiplied by the same dwords of A.
struct IntegerSpills {
    int32_t const* first;    ///< of each vector of columns, and one more; null: nothing was taken out
    int32_t const* places;   ///< [spills][2]: tap, and bytes from it
    int32_t const* weights;  ///< [spills][width]
};

/// One block of `Y = finish(A · B)`.
///
/// sums(i, j) = A·B(i, j) + column_add[j] + row_add[i] - row_sum[i] * b_zero[j] - row_zero[i] * column_sum[j], modulo
/// 2^32.
struct IntegerBlock {
    int64_t rows, columns;
    uint8_t const* a;
    bool a_signed;               ///< bytes of A have a sign
    int64_t a_row;               ///< bytes between rows
    int64_t const* a_offsets;    ///< or bytes from `a` to each row; null: none
    int64_t taps;                ///< runs of `depth` dwords that a row consists of
    int64_t const* tap_offsets;  ///< bytes from the row to each
    int64_t depth;
    int32_t const* b;       ///< panels of taps * depth * panel dwords, or half dwords
    bool grouped;           ///< a column reads dwords of its own group, see `IntegerFunctions::few_columns`
    int64_t tile_dwords;    ///< of k that tiles take at a time; 0: none
    int64_t largest_ahead;  ///< bytes of a panel up to which the one behind it is asked for: L2 holds both and A
    IntegerSpills spills;
    int32_t const* column_add;
    int32_t const* row_add;                ///< null: none
    int32_t const *row_sum, *b_zero;       ///< null: none
    int32_t const *row_zero, *column_sum;  ///< null: none
    float const* scale;                    ///< one for each column; not with I32
    float const* shift;                    ///< one for each real column; null: none
    uint8_t const* residual;               ///< rows as those of Y; null: none
    IntegerTail tail;
    void* y;
    int64_t y_row;  ///< elements between rows of Y and residual
};

/// Makes of the sums of B's columns what `IntegerBlock` adds to a product; `columns` is whole panels, of which `n` are
/// real.
struct IntegerTerms {
    int64_t n, columns;
    int32_t k;
    int32_t const* sums;
    uint8_t const* zeros;  ///< zero points of B, one or one for each column; null: none
    bool zeros_signed, many_zeros;
    int32_t zero_shift;   ///< added to each
    int32_t row_zero;     ///< of A, for all rows; 0 if they differ
    int32_t const* bias;  ///< null: none
    float const* scales;  ///< null: none
    bool many_scales;
    int32_t *zero, *sum, *add;  ///< results: zero points, sums - k * zero, bias - row_zero * that
    float* scale;
};

/// Rows of B as panels.
struct IntegerRows {
    uint8_t const* b;  ///< [k][n]
    bool is_signed;
    int64_t k, n, row;       ///< bytes between rows
    int32_t *panels, *sums;  ///< as in packed B
};

/// Tiles of 4 × 4 positions of one image, and panels of columns; see `integer_conv/integer_winograd.h`.
struct IntegerWinograd {
    uint8_t const* x;  ///< [height][width][channels]
    bool x_signed;
    int32_t x_zero;
    int64_t channels, height, width, pad_top, pad_left;
    int64_t out_height, out_width, tile_columns, first, tiles;
    int16_t* v;  ///< room for [36][tiles][row]; `row` is whole vectors
    int64_t row;
    int32_t const* u;  ///< [panels][36][depth][panel]
    int64_t depth, panel_begin, panel_end;
    int32_t* m;      ///< room for [36][tiles][panel]
    IntegerBlock y;  ///< what becomes of sums; `y` is the image, `columns` are all, `column_add` whole panels
};

/// Filters of a panel of columns; see `integer_conv/integer_winograd.h`.
struct IntegerFilters {
    uint8_t const* w;  ///< [depth][2][9][panel]
    bool is_signed;
    uint8_t const* zeros;  ///< zero points of the columns
    int64_t depth;
    int32_t* u;  ///< room for [36][depth][panel]
};

/// Rows below which B arrives no sooner for tiles than for vectors.
constexpr int64_t kLeastTileRows = 8;

/// Of two weights of one sign: 255 times so much fits i16. If signs differ, each product fits by itself.
constexpr int32_t kMostOfPair = 128;

struct IntegerFunctions {
    int group;         ///< k in a dword: 4 (bytes) or 2 (i16)
    int width, panel;  ///< columns in a vector and in a panel
    int rows;          ///< of the register tile
    void (*multiply)(IntegerBlock const&);
    void (*depthwise)(DepthwiseBlock const&);
    void (*terms)(IntegerTerms const&);
    /// `n` bytes as elements of A: copied, shifted or widened.
    void (*widen)(uint8_t const* source, bool is_signed, int64_t n, uint8_t* target);
    /// Sum of `n` elements of A.
    int32_t (*sum)(uint8_t const* row, int64_t n);
    void (*depthwise_strips)(DepthwiseStrips const&) = nullptr;  ///< null: none
    void (*pack_rows)(IntegerRows const&) = nullptr;
    void (*winograd)(IntegerWinograd const&) = nullptr;  ///< null: none
    void (*winograd_filters)(IntegerFilters const&) = nullptr;
    /// As `depthwise`, where X lies, stored as bytes, or as f32 that was not rounded, without a residual, of at least
    /// so many channels and at most so many taps; null: none.
    void (*depthwise_in_place)(DepthwiseBlock const&) = nullptr;
    int64_t least_in_place = 0, most_taps_in_place = 0;
    /// Of so many vectors of packed B, those with two neighbours whose products may not fit i16 together, as they must;
    /// null: they need not.
    int64_t (*spills)(int32_t const* dwords, int64_t vectors) = nullptr;
    bool narrow = false;  ///< B's dwords of two i16 are stored as two bytes
    int tile_rows = 0;    ///< rows at one distance from each other that loops want together; 0: any will do
    /// Whose `multiply` takes blocks of 16 columns, each a panel: one block, or with `grouped` those of a convolution
    /// of groups of `4 * depth` channels and as many outputs, a block of which reads 16 bytes of a row. Zero points of
    /// B are 0. Null: none.
    IntegerFunctions const* few_columns = nullptr;
    double speed = 1;       ///< products in a time, over those of vectors of `width`, where there are `tile_dwords`
    bool a_signed = false;  ///< of A of i8, as it is
    IntegerFunctions const* of_signed = nullptr;  ///< such, where there are `tile_dwords`; null: A is shifted

    bool is_bytes() const { return group == 4; }
    int element_bytes() const { return 4 / group; }    ///< of A
    int cell_bytes() const { return narrow ? 2 : 4; }  ///< what a dword of B takes
};

IntegerFunctions const& integer_functions_avx2();
IntegerFunctions const& integer_functions_avx2_bytes();
IntegerFunctions const& integer_functions_avx2_narrow();
IntegerFunctions const& integer_functions_avx2vnni();
IntegerFunctions const& integer_functions_avx512();
IntegerFunctions const& integer_functions_avx512vnni();
/// Those of AVX-512 VNNI, but products by tiles (AMX).
IntegerFunctions const& integer_functions_avx512amx();
void multiply_integers_avx512amx(IntegerBlock const&);
/// The same with these loops over tiles.
struct TileFunctions {
    IntegerFunctions of_signed, all;

    explicit TileFunctions(void (*multiply)(IntegerBlock const&));
    TileFunctions(TileFunctions const&) = delete;
    TileFunctions& operator=(TileFunctions const&) = delete;
};
/// Whether a product by `multiply` has the sums that one by vectors has. No processor with AMX was at hand when its
/// loops were written: kernels ask this before they use them.
bool multiplies_right(void (*multiply)(IntegerBlock const&));

}  // namespace refactor::kernel
