#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

namespace refactor::kernel {

/// Part of a row of outputs of a convolution with few output channels, whose input is in blocks of channels and whose
/// output is row-major.
struct FewOutputsJob {
    float const* x;   ///< the first row that the window could read, at column 0
    int64_t x_block;  ///< floats between blocks of channels
    int64_t blocks;
    int64_t const* row_x;  ///< floats from `x` to each row of the window that is inside
    int64_t const* row_w;  ///< and to its weights, which are [kernel_cols][outputs][block]
    int64_t rows;
    int64_t kernel_cols, col_stride, col_dilation, col_pad, in_cols;
    int64_t col, col_end;  ///< of the outputs
    float const* w;        ///< [blocks][taps][outputs][block]
    int64_t w_block;       ///< floats
    float const* bias;     ///< null: none
    float* y;
    int64_t y_channel;  ///< floats between output channels
    Activation activation;
};

/// One instruction set.
struct FewOutputsIsa {
    int block;
    void (*row[8])(FewOutputsJob const&);  ///< of one output more than the index; null: too many
};
FewOutputsIsa const& few_outputs_avx2();
FewOutputsIsa const& few_outputs_avx512();
/// Two channels of bf16 in a lane, of X and of the weights.
FewOutputsIsa const& few_outputs_avx512bf16();

}  // namespace refactor::kernel
