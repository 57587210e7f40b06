#pragma once
#include "conv/direct_plan.h"
#include "conv/winograd.h"

#include <string>

namespace refactor::kernel {

/// Names what `pack_winograd` stores.
std::string winograd_format(WinogradForm const&, ChunkList const&);
/// Filters [M, C / group, planes, taps], transformed (G g, or G g Gᵀ, in f64): for each part of the channels and each
/// product the layout of the list.
void pack_winograd(WinogradForm const&, ChunkList const&, Geometry const&, float const* weights, float* packed);

}  // namespace refactor::kernel
