#pragma once
#include "operator_def.h"

namespace refactor::onnx {

/// Elements of the result of an elementwise operator on tensors that carry sizes, if they can be expressed: all inputs
/// known, result shape constant. `apply` computes one element from one element of each input.
using ElementRule = std::optional<DimExpr> (*)(std::span<DimExpr const> operands, bool is_float);
std::optional<std::vector<DimExpr>> elementwise_values(InferContext const& context, Shape const& output,
                                                       ElementRule apply);

/// Rule of an ONNX elementwise operator on sizes, null if it has none.
ElementRule element_rule(std::string_view op_type);

}  // namespace refactor::onnx
