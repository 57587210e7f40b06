#pragma once
#include "operator_def.h"

/// Integer products and what is made of them.
namespace refactor::onnx {

using LoweredEdge = frontend::LowerContext::Edge;

/// Operands of an integer product; null where absent. Places as in `kernel::IntegerMatMulInfo`.
struct IntegerOperands {
    LoweredEdge a, b, a_zero = nullptr, b_zero = nullptr, bias = nullptr, scale = nullptr, y_zero = nullptr;
};
/// Emits the product of matrices (no vectors); `y` decides what becomes of the sums.
LoweredEdge emit_integer_product(LowerContext& c, IntegerOperands const& operands, DataType y, Shape shape);

/// Emits `a * b / y` of scales in their own type, as f32; broadcasts. `y` may be null.
LoweredEdge emit_scale(LowerContext& c, LoweredEdge a, LoweredEdge b, LoweredEdge y);
/// Emits `saturate(round(x * scale) + zero_point)` of type `to`, broadcasting; x is i32 or f32, `zero_point` may be
/// null. 8-bit floats are rounded once.
LoweredEdge emit_requantize(LowerContext& c, LoweredEdge x, LoweredEdge scale, LoweredEdge zero_point, DataType to);

}  // namespace refactor::onnx
