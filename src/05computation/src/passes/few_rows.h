#pragma once
#include "computation/graph.h"

namespace refactor::computation {

/// Rows up to which products of their own kernels read a matrix once, on a GPU.
inline constexpr int64_t kFewRows = 8;

/// Rows of a matrix, leading axes included.
inline DimExpr rows_of(Shape const& shape) {
    DimExpr rows(1);
    for (size_t axis = 0; axis + 1 < shape.size(); ++axis) rows = rows * shape[axis];
    return rows;
}

}  // namespace refactor::computation
