#pragma once
#include <cstdint>

// Vectorised passes over rows and columns of f32 or f64, one implementation for each instruction set: what reductions,
// softmax and normalisations are made of.

namespace refactor::kernel {

/// How elements are combined: Exp sums e^(x - shift).
enum class RowOp : uint8_t { Sum, Abs, Square, Exp, Max, Min, Prod };

/// What becomes of combined elements: quotients, square roots, or logarithms and what had been subtracted.
enum class RowEnd : uint8_t { Divide, Root, Log };

struct RowRun {
    int64_t size, stride;
};

template <class T>
struct NormRowOf {
    T const *x, *residual;          ///< residual null: none
    T const *scale, *bias;          ///< bias null: none
    int64_t scale_step, bias_step;  ///< 0: one value for all
    T *y, *sum;                     ///< sum null: x + residual is not wanted
    int64_t size;
    float epsilon;
    bool rms;
};

template <class T>
struct RowFunctionsOf {
    int width, together;  ///< elements of a vector; columns that `columns` takes at once
    /// Combines `count` contiguous elements; NaN arrives in Max and Min.
    T (*partial)(RowOp, T const* x, int64_t count, T shift);
    /// For each of `columns` ≤ `together` contiguous columns: combines the elements at all offsets of `runs`. `shift`:
    /// one value per column, for Exp.
    void (*columns)(RowOp, T const* x, int64_t columns, RowRun const* runs, int count, T const* shift, T* y);
    /// For each of `rows` rows of `size` elements behind each other: combines its elements. `shift`: one value per row,
    /// for Exp.
    void (*short_rows)(RowOp, T const* x, int64_t rows, int64_t size, T const* shift, T* y);
    /// For each of `sets` sets of `size` rows of `columns` ≤ 2 * width columns, all behind each other: combines the
    /// rows. `shift`: one value for each result, for Exp.
    void (*column_sets)(RowOp, T const* x, int64_t sets, int64_t size, int64_t columns, T const* shift, T* y);
    /// `shift`: one value for each of `count` results of Log; null: none.
    void (*finish)(RowEnd, T* y, int64_t count, T divisor, T const* shift);
    /// (Log-)softmax of rows behind each other; y may be x.
    void (*softmax)(T const* x, T* y, int64_t rows, int64_t size, bool log, bool nan_to_zero);
    /// The same over columns: element k of a column is at k * stride; `columns` ≤ 4 * width.
    void (*softmax_columns)(T const* x, T* y, int64_t size, int64_t stride, int64_t columns, bool log,
                            bool nan_to_zero);
    void (*layer_norm)(NormRowOf<T> const&);
    /// The same of `rows` rows, whose elements k are at k * rows of X and Y, without a residual or sum.
    void (*layer_norm_lanes)(NormRowOf<T> const&, int64_t rows);
    /// One set of `channels` × `positions`, scaled and shifted by channel.
    void (*group_norm)(T const* x, T const* scale, T const* bias, T* y, int64_t channels, int64_t positions,
                       float epsilon);
    /// Lane by lane: adds the elements of `positions` vectors, or, with a mean, the squares of their distances to it.
    void (*lane_sums)(T const* x, int64_t positions, T const* mean, double* sums);
    /// Lane by lane: (x - mean) * factor + bias of `positions` vectors; y may be x.
    void (*lane_affine)(T const* x, int64_t positions, T const* mean, T const* factor, T const* bias, T* y);
};

using RowFunctions = RowFunctionsOf<float>;

RowFunctions const& row_functions_avx2();
RowFunctions const& row_functions_avx512();
RowFunctionsOf<double> const& row_functions_f64_avx2();
RowFunctionsOf<double> const& row_functions_f64_avx512();

}  // namespace refactor::kernel
