#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Images whose channels lie together, beside the same in blocks of channels; in bytes, or in elements.
struct ChannelsLastSizes {
    int64_t images, positions, row, block;  ///< row: all channels of a position

    int64_t blocks() const { return (row + block - 1) / block; }
};
/// `unit`: what an element counts.
Result<ChannelsLastSizes, Rejection> channels_last_sizes(TensorDesc const& x, TensorDesc const& y, int64_t unit);

/// Positions that stay in L2 while all their blocks are read (written), in runs of many lines of each block.
int64_t channels_last_positions(int64_t row_bytes);

/// ns of a copy.
double channels_last_estimate(BindArgs const&);

}  // namespace refactor::kernel
