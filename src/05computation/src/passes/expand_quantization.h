#pragma once
#include "pass.h"

namespace refactor::computation {

/// Turns Quantize and Dequantize nodes into Elementwise ones that compute the same, so that they fuse with their
/// neighbours. Left alone: blocks of scales, packed types and 8-bit floats where the Expression engine differs. Passes
/// that look for quantised operators must run before.
int expand_quantization(Model&, PassContext const&);

}  // namespace refactor::computation
