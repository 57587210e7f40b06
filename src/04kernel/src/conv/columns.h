#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

namespace refactor::kernel {

/// Neighbouring columns of one row of all outputs of a convolution with few output channels, whose tensors are
/// row-major.
struct ColumnsJob {
    float const* x;  ///< what the first tap of the first column reads, in channel 0
    int64_t channels, x_channel;
    int64_t const* row_x;  ///< floats from `x` to each row of the window that is inside
    int64_t const* row_w;  ///< and to its weights, which are [channel][tap][output]
    int64_t rows;
    int64_t const* tap_x;  ///< floats from the first tap's column to each tap's; columns themselves are neighbours
    int64_t taps;
    float const* w;
    float const* bias;  ///< null: none
    float* y;
    int64_t y_channel;
    int64_t count;  ///< columns, at most the tile's
    Activation activation;
};

/// A row of a channel whose columns become neighbours for every tap: [stride][length], zeros outside of the row.
struct PhasesJob {
    float const* x;          ///< the row
    int64_t columns, begin;  ///< `begin`: the first column, which may be outside
    int64_t stride, length;
    uint64_t phase_mask;  ///< bit p mod 64: phase p is read; the others are left as they are
    float* y;
};

/// One instruction set.
struct ColumnsIsa {
    static constexpr int kMostOutputs = 8, kMostVectors = 8;
    int width;
    int outputs;                ///< at most
    int vectors[kMostOutputs];  ///< of a tile of one output more than the index, at most
    void (*tile[kMostOutputs][kMostVectors])(ColumnsJob const&);  ///< of one output and vector more; may be null
    void (*phases)(PhasesJob const&);
};
ColumnsIsa const& columns_avx2();
ColumnsIsa const& columns_avx512();

}  // namespace refactor::kernel
