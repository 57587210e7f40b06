#pragma once
#include "pass.h"

namespace refactor::computation {

/// Turns convolutions and products of dequantised bytes into IntegerConv and IntegerMatMul nodes, together with what
/// follows them: biases, multiplication by a number, Relu and Clip, the addition of a residual (dequantised bytes or
/// f32), and up to two quantisations; and average pooling between quantised tensors into IntegerPool. Also what scales
/// the i32 sums of MatMulInteger and ConvInteger, and what follows the bytes of QLinearConv and QLinearMatMul.
///
/// Rounding is to nearest even at every quantisation of the model, intermediate ones included; a result differs from
/// that of the model in f32 by one quantum at most, where the f32 sum errs across a rounding boundary.
///
/// Scales and zero points must be constants (or, behind integer sums, f32 tensors). What keeps a node in f32 is said in
/// the report. Must run behind `move_quantization`, before constants are folded and elementwise nodes are fused.
int fold_quantization(Model&, PassContext const&);

}  // namespace refactor::computation
