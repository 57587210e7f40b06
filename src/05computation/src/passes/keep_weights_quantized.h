#pragma once
#include "pass.h"

namespace refactor::computation {

/// Products with constant matrices of integers of 2 to 8 bits that are dequantised on the way (weight-only
/// quantisation, by DequantizeLinear or by arithmetic: scales for all, for each column, or for blocks along K) read
/// them as they are: BlockMatMul, or MatMul of I8 with scales for bytes around zero. A Gather of their rows gathers
/// numbers and scales, and dequantises what it found. Sums are of f32, as if the weights had been dequantised without
/// rounding.
///
/// Left alone: products of as many rows as make reading weights no cost beside multiplying, where weights are bytes;
/// `weights="f32"`. What keeps a node's weights in f32 otherwise is said in the report. Must run behind
/// `fold_quantization`, which wants both operands quantised, and before constants are folded.
int keep_weights_quantized(Model&, PassContext const&);

}  // namespace refactor::computation
