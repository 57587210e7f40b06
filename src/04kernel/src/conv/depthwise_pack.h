#pragma once
#include "conv/geometry.h"

namespace refactor::kernel {

/// Weights [M, width, taps] of a depthwise (width 1) or grouped convolution as [block of M][tap][width][channel], zeros
/// past M. In blocks of 32 channels, of bf16, those of even numbers come first.
std::shared_ptr<mem_manager::Blob const> packed_depthwise(mem_manager::Blob const& weights, Geometry const&,
                                                          int64_t block, PackCache&);
/// Block `b` of them.
void pack_depthwise_block(float const* w, Geometry const&, int64_t block, int64_t b, float* packed);

}  // namespace refactor::kernel
