#pragma once
#include "kernel/epilogue.h"

#include <cstddef>

// The boundary between the choice of blocks (baseline code) and the loops over them (one file for each instruction
// set).
//
// B is consumed in panels of `panel` columns, all k of a panel contiguous: [k][panel]; the last panel is only as wide
// as the columns left, rounded up to whole vectors. Constants are packed so once; other matrices panel by panel while
// they are used, or not at all.

namespace refactor::kernel {

enum class ProductSource : uint8_t {
    Packed,       ///< panels
    Rows,         ///< [K, N], read in place
    PackRows,     ///< [K, N], packed into `scratch` on the way
    PackColumns,  ///< [N, K], likewise
    Columns,      ///< [N, K], read in place by `multiply_columns`
    Widen,        ///< panels of a smaller type, widened into `scratch` on the way
};

/// Elements of the panels of a constant B; F32 stands for those of A, which may be f64; Pairs are two of bf16 in a
/// float, neighbours along k.
enum class WeightType : uint8_t { F32, F16, BF16, I8, Pairs };

/// One block of `Y = act(alpha * A · B + bias + residual)`; steps in elements.
template <class T>
struct ProductBlockOf {
    int64_t m, n, k;
    T const* a;
    int64_t a_row, a_k;
    T const* b;
    int64_t b_row;       ///< between rows of B as it is stored (not used for panels)
    int64_t panel_rows;  ///< k of the panels of which the first `k` are used; 0: `k`
    bool near;           ///< panels, or A of `multiply_columns`, are in L2, or rows that are streamed in L3: they need
                         ///< not be asked for
    int64_t elements;    ///< not 0: A is f32 with so many along k, which counts pairs, made in `scratch` on the way
    ProductSource source;
    WeightType weight_type;  ///< for Widen and `multiply_few`, whose panels are at `weights`
    std::byte const* weights;
    float const* scales;  ///< one for each column of `weights`; null: none
    T* y;
    int64_t y_row;
    T const* bias;  ///< null: none
    bool scalar_bias;
    T const* row_bias;  ///< for `multiply` alone, with an alpha of 1: one for each row; null: none
    T const* residual;  ///< null: none; steps as Y
    bool residual_last;
    float alpha;
    Activation activation;
    int64_t block_m, block_k;  ///< rows and depth that are worked on at a time
    T* scratch;  ///< `block_k * panel` elements, and `block_m * block_k` in front of them for pairs, or what
                 ///< `multiply_strassen` asks for
    T* a_tiles;  ///< of all of A; null: made in `scratch`

    uint16_t* narrow_y;  ///< pairs only: where results are stored as bf16, instead of `y`; block_k is k then, and there
                         ///< is no residual; null: as f32

    // For tiles of pairs alone.
    bool in_rows;    ///< A has room for whole tiles, zeros behind k, and is read in place; B is Packed, so that nothing
                     ///< needs `scratch`. Sums alone, or added to Y (the residual, for block_k = k), are made in it
                     ///< where tiles are whole
    bool room_in_y;  ///< with `in_rows`: all of them are
    T* maxima;       ///< with `room_in_y`: a vector for each row, whose lanes become the largest of what they held and
                     ///< of the sums in Y, but for NaN; null: none

    // For `multiply_strassen` alone, whose A and Y may be in blocks of channels.
    int64_t group;          ///< rows among which pairs are formed
    int64_t run, run_step;  ///< a row of A comes in runs of `run` elements, `run_step` apart
    int64_t y_vector;       ///< between the vectors of a row of Y
};
using ProductBlock = ProductBlockOf<float>;

/// Products by tiles (AMX), of f32 and pairs only.
template <class T>
struct TileFunctionsOf {
    void (*multiply)(ProductBlockOf<T> const&) = nullptr;  ///< null: none
    /// Elements of `scratch`; whether A is made tiles of beforehand.
    int64_t (*scratch)(int64_t block_m, int64_t block_k, bool shared) = nullptr;
    /// A beforehand: elements of `a_tiles`, and rows [first, first + rows) of it, `first` a multiple of 16, of a block
    /// that is all of A. block_k is then a multiple of 32, or k.
    int64_t (*tiles_of_a)(int64_t m, int64_t k) = nullptr;
    void (*make_tiles)(ProductBlockOf<T> const&, int64_t first, int64_t rows) = nullptr;
};
using TileFunctions = TileFunctionsOf<float>;
/// Rows from which on tiles repay their configuration and, of f32, the parts of a panel made for them.
constexpr int64_t rows_for_tiles(bool pairs) { return pairs ? 16 : 24; }

template <class T>
struct ProductFunctionsOf {
    int width, rows, panel;  ///< elements of a vector; rows and columns of the register tile
    void (*multiply)(ProductBlockOf<T> const&);
    /// For few rows and B [N, K] in place: a dot product for each element. `block_*`, `scratch`, `source` are not used;
    /// needs a_k = 1.
    void (*multiply_dots)(ProductBlockOf<T> const&);
    /// For few rows and B [K, N] in place: one row of B after the other is added to Y. `block_*`, `scratch`, `source`
    /// are not used.
    void (*multiply_streamed)(ProductBlockOf<T> const&);
    /// For many rows of 2 to `width` / 2 columns: needs a_k = 1 and rows of Y that follow each other. B is [K, N], for
    /// which `scratch` holds n * k elements, k in whole vectors, unless the source is Columns. `block_*` are not used.
    void (*multiply_columns)(ProductBlockOf<T> const&);
    /// `multiply_few_*`; f32 only.
    void (*multiply_few)(ProductBlockOf<T> const&);
    /// One level of Strassen's algorithm, f32 only: the source is Packed, a_k 1, k and block_k even, block_m a multiple
    /// of `group` unless m is less; if runs are shorter than k they are one vector, half of block_k a multiple of it,
    /// and n one of two panels. `scratch` holds 2 * block_k * panel + 7 * (block_m / 2) * (half of block_k in whole
    /// vectors) elements.
    void (*multiply_strassen)(ProductBlockOf<T> const&);
    /// For B [K, N] in place whose k is at most `flat`: rows of B stay in registers. `block_*`, `scratch`, `source` are
    /// not used.
    void (*multiply_flat)(ProductBlockOf<T> const&);
    int64_t flat;
    /// Packs B [K, N], or [N, K] if `columns`, into panels.
    void (*pack)(T* target, T const* b, int64_t b_row, bool columns, int64_t n, int64_t k);
    TileFunctionsOf<T> tiles{};
};
using ProductFunctions = ProductFunctionsOf<float>;

/// For panels of a smaller type and few rows: widened in registers, for every `rows` rows anew. `block_*`, `scratch`,
/// `source` are not used.
void multiply_few_avx2(ProductBlock const&);
void multiply_few_avx512(ProductBlock const&);

ProductFunctions const& product_functions_avx2();
ProductFunctions const& product_functions_avx512();
/// Those of AVX-512, and products of three parts by tiles.
ProductFunctions const& product_functions_avx512amx();
/// These, with products by tiles.
inline ProductFunctions with_tiles(ProductFunctions functions, TileFunctions const& tiles) {
    functions.tiles = tiles;
    return functions;
}
TileFunctions split_tiles_avx512amx();
TileFunctions rounded_tiles_avx512amx();
ProductFunctionsOf<double> const& product_functions_f64_avx2();
ProductFunctionsOf<double> const& product_functions_f64_avx512();

}  // namespace refactor::kernel
