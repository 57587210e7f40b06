#pragma once
#include <cstdint>

// Vectorised passes over rows and columns of f32, one implementation for each instruction set: what reductions, softmax
// and normalisations are made of.

namespace refactor::kernel {

/// How elements are combined: Exp sums e^(x - shift).
enum class RowOp : uint8_t { Sum, Abs, Square, Exp, Max, Min, Prod };

struct RowRun {
    int64_t size, stride;
};

struct NormRow {
    float const *x, *residual;      ///< residual null: none
    float const *scale, *bias;      ///< bias null: none
    int64_t scale_step, bias_step;  ///< 0: one value for all
    float *y, *sum;                 ///< sum null: x + residual is not wanted
    int64_t size;
    float epsilon;
    bool rms;
};

struct RowFunctions {
    int width;
    /// Combines `count` contiguous elements; NaN arrives in Max and Min.
    float (*partial)(RowOp, float const* x, int64_t count, float shift);
    /// For each of `columns` ≤ 4 * width contiguous columns: combines the elements at all offsets of `runs`. `shift`:
    /// one value per column, for Exp.
    void (*columns)(RowOp, float const* x, int64_t columns, RowRun const* runs, int count, float const* shift,
                    float* y);
    /// For each of `rows` rows of `size` elements behind each other: combines its elements. `shift`: one value per row,
    /// for Exp.
    void (*short_rows)(RowOp, float const* x, int64_t rows, int64_t size, float const* shift, float* y);
    void (*divide)(float* y, int64_t count, float divisor);
    /// (Log-)softmax of rows behind each other; y may be x.
    void (*softmax)(float const* x, float* y, int64_t rows, int64_t size, bool log, bool nan_to_zero);
    /// The same over columns: element k of a column is at k * stride; `columns` ≤ 4 * width.
    void (*softmax_columns)(float const* x, float* y, int64_t size, int64_t stride, int64_t columns, bool log,
                            bool nan_to_zero);
    void (*layer_norm)(NormRow const&);
    /// One set of `channels` × `positions`, scaled and shifted by channel.
    void (*group_norm)(float const* x, float const* scale, float const* bias, float* y, int64_t channels,
                       int64_t positions, float epsilon);
    /// Lane by lane: adds the elements of `positions` vectors, or, with a mean, the squares of their distances to it.
    void (*lane_sums)(float const* x, int64_t positions, float const* mean, double* sums);
    /// Lane by lane: (x - mean) * factor + bias of `positions` vectors; y may be x.
    void (*lane_affine)(float const* x, int64_t positions, float const* mean, float const* factor, float const* bias,
                        float* y);
};

RowFunctions const& row_functions_avx2();
RowFunctions const& row_functions_avx512();

}  // namespace refactor::kernel
