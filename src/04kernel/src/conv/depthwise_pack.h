#pragma once
#include "conv/geometry.h"

namespace refactor::kernel {

/// Weights [M, width, taps] of a depthwise (width 1) or grouped convolution as [block of M][tap][width][channel], zeros
/// past M.
std::shared_ptr<mem_manager::Blob const> packed_depthwise(mem_manager::Blob const& weights, Geometry const&,
                                                          int64_t block, PackCache&);

}  // namespace refactor::kernel
