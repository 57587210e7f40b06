#pragma once
#include "common/data_type.h"

namespace refactor::pnnx {

/// What torch's type promotion looks at first: tensors with axes decide over scalar tensors, those over Python numbers.
enum class Weight : uint8_t { Number, Scalar, Tensor };

/// The type of a result of operands of types `a` and `b`. An operand of less weight only counts if its kind (bool,
/// integer, float) is higher; a Python float is then f32. Source: torch.result_type.
DataType promote(DataType a, Weight weight_a, DataType b, Weight weight_b);

/// f32 for integers and bool: what torch computes floating-point functions of them in.
DataType float_of(DataType dtype);

}  // namespace refactor::pnnx
