#pragma once
#include "kernel/kernel.h"

namespace refactor::kernel {

/// Weights [M, 1, taps] of a depthwise convolution as [block of M][tap][channel], zeros past M.
std::shared_ptr<mem_manager::Blob const> packed_depthwise(mem_manager::Blob const& weights, int64_t channels,
                                                          int64_t taps, int64_t block, PackCache&);

}  // namespace refactor::kernel
