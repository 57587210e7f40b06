#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

namespace refactor::kernel {

/// Rows [row, row_end) of one block of channels of a depthwise convolution, or of one whose groups are a part of a
/// block and have as many outputs as inputs; read in place.
struct DepthwiseJob {
    float const* x;  ///< plane of the block, the first that the window reads
    float const* w;  ///< of the taps of that plane: [kernel_rows][kernel_cols][width][block]
    float const* bias;
    float const* residual;
    float* y;  ///< plane of the block
    int64_t in_rows, in_cols, out_cols, row, row_end;
    int64_t kernel_rows, kernel_cols, row_stride, col_stride, row_dilation, col_dilation, row_pad, col_pad;
    int32_t width;  ///< channels of a group
    int32_t lanes;  ///< channels in the block; the others become 0
    bool residual_last;
    Activation activation;
    int64_t planes = 1, x_plane = 0, w_plane = 0;  ///< of the window that are inside, and the steps between them
};

/// One instruction set.
struct DepthwiseIsa {
    int block;
    void (*rows)(DepthwiseJob const&);
};
DepthwiseIsa const& depthwise_avx2();
DepthwiseIsa const& depthwise_avx512();

}  // namespace refactor::kernel
