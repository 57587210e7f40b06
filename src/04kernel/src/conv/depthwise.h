#pragma once
#include "kernel/epilogue.h"

#include <cstdint>

namespace refactor::kernel {

/// Rows [row, row_end) of one block of channels of a depthwise convolution, or of one whose groups are a part of a
/// block and have as many outputs as inputs; read in place. `T`: of an element in memory, bf16 as its bits.
template <class T>
struct DepthwiseJobOf {
    T const* x;      ///< plane of the block, the first that the window reads
    float const* w;  ///< of the taps of that plane: [kernel_rows][kernel_cols][width][block]
    float const* bias;
    T const* residual;
    T* y;  ///< plane of the block
    int64_t in_rows, in_cols, out_cols, row, row_end;
    int64_t kernel_rows, kernel_cols, row_stride, col_stride, row_dilation, col_dilation, row_pad, col_pad;
    int32_t width;  ///< channels of a group
    int32_t lanes;  ///< channels in the block; the others become 0
    bool residual_last;
    Activation activation;
    int64_t planes = 1, x_plane = 0, w_plane = 0;  ///< of the window that are inside, and the steps between them
};

using DepthwiseJob = DepthwiseJobOf<float>;

/// A plane of a block whose channels are some of two neighbouring blocks, where each serves several outputs.
template <class T>
struct SpreadJobOf {
    static constexpr int kMostLanes = 32;
    T const* x;       ///< plane of the first block
    int64_t x_block;  ///< elements to that of the second
    int64_t positions;
    int32_t from[kMostLanes];  ///< by lane: its channel, counted from the first block's first
    T* y;
};

/// One instruction set.
template <class T>
struct DepthwiseIsaOf {
    int block;
    void (*rows)(DepthwiseJobOf<T> const&);
    void (*spread)(SpreadJobOf<T> const&);
};
using DepthwiseIsa = DepthwiseIsaOf<float>;
DepthwiseIsa const& depthwise_avx2();
DepthwiseIsa const& depthwise_avx512();
DepthwiseIsaOf<uint16_t> const& depthwise_avx512bf16();

}  // namespace refactor::kernel
