#pragma once
#include "pass.h"

namespace refactor::computation {

/// Brings Dequantize nodes down, and Quantize nodes (with elementwise nodes of one variable) up, across nodes that only
/// move elements or take their maximum, so that bytes are moved instead of floats and products and convolutions meet
/// the nodes that quantise for them. A Quantize node behind a Concat becomes one for each input. Drops Quantize nodes
/// that undo a Dequantize node. All results stay the same. Must run before `fold_quantization` and before constants are
/// folded.
int move_quantization(Model&, PassContext const&);

}  // namespace refactor::computation
