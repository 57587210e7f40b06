#pragma once
#include "operator_def.h"

namespace refactor::onnx {

/// Elements of the result of an elementwise operator on tensors that carry sizes, if they can be expressed: all inputs
/// known, result shape constant. `apply` computes one element from one element of each input. A size minus a number is
/// divided as if it were not negative, as strided windows are counted: the run is refused where it is.
using ElementRule = std::optional<DimExpr> (*)(std::span<DimExpr const> operands, bool is_float);
std::optional<std::vector<DimExpr>> elementwise_values(InferContext& context, Shape const& output, ElementRule apply);

/// Elements of a view of input 0, which carries sizes: of constant shape `output`, from element `first` on, `steps[i]`
/// elements apart along axis i. Nothing if they are unknown, or constants.
std::optional<std::vector<DimExpr>> viewed_values(InferContext const& context, Shape const& output, Dims const& steps,
                                                  int64_t first = 0);
/// How many elements are between neighbours along each axis of a row-major tensor, if that is constant.
std::optional<Dims> row_major_steps(Shape const& shape);

/// Rule of an ONNX elementwise operator on sizes, null if it has none.
ElementRule element_rule(NodeView const& node);

}  // namespace refactor::onnx
