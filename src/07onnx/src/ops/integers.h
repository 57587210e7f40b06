#pragma once
#include "frontend/tensor.h"

namespace refactor::onnx {

/// Numbers in a tensor that inference has found to be completely known (as constant or as values); empty if it is not.
std::vector<int64_t> known_integers(frontend::Tensor const& tensor);
std::vector<double> known_floats(frontend::Tensor const& tensor);

}  // namespace refactor::onnx
