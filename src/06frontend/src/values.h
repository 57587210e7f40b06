#pragma once
#include "frontend/tensor.h"

#include <optional>
#include <vector>

namespace refactor::frontend {

/// Number of elements if every size is a constant and the product fits, else nothing.
std::optional<int64_t> constant_count(Shape const& shape);
/// Sizes as numbers; every one must be a constant.
Dims constant_dims(Shape const& shape);

/// The elements of `tensor` as expressions: those it carries, or those of its constant (integers, bool, whole floats);
/// nothing if they are unknown or more than `limit`.
std::optional<std::vector<DimExpr>> values_of(Tensor const& tensor, size_t limit);
/// A constant of the given type that holds `values`, all of them numbers; null if one is not, or the type cannot hold
/// numbers.
std::shared_ptr<mem_manager::Blob const> blob_of(DataType dtype, std::vector<DimExpr> const& values);
/// Gives a tensor whose values are all numbers its constant.
void materialise(Tensor& tensor);

}  // namespace refactor::frontend
