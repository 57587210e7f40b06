#pragma once
#include "frontend/operator.h"

#include <string_view>
#include <vector>

/// Einsum as diagonals, transposes, sums and matrix products, operand by operand from the left. Labels are letters; one
/// "..." in a term stands for axes that broadcast, and without "->" the output has the labels that occur once, in the
/// order of the alphabet. Source: ONNX Einsum-12, `numpy.einsum`.
namespace refactor::frontend {

/// Shape of the result.
Inferred<Shape> einsum_rule(std::string_view equation, std::vector<Shape> const& operands, InferContext& c);
/// The result; operands have one numeric type.
Inferred<LowerContext::Edge> lower_einsum(LowerContext& c, std::string_view equation,
                                          std::vector<LowerContext::Edge> const& operands);

}  // namespace refactor::frontend
