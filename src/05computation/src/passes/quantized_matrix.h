#pragma once
#include "computation/graph.h"
#include "kernel/ops/quantize.h"
#include "made_constants.h"

#include <optional>

namespace refactor::computation {

/// A constant matrix of integers of 2, 4 or 8 bits that floats are made of.
struct QuantizedMatrix {
    EdgePtr data = nullptr, scale = nullptr, zero = nullptr;  ///< zero may be null
    int64_t rows = 0, columns = 0;
    kernel::Granularity granularity;

    DataType type() const { return data->value.dtype; }
    SharedBlob const& blob() const { return data->value.constant; }
    /// One scale for all elements.
    bool has_one_scale() const { return element_count(scale->value.shape) == DimExpr(1); }
};

/// That of `edge`, if a Dequantize node makes it, or a cast, a subtraction and a multiplication, or some of them; their
/// operands are computed if they are made of constants.
std::optional<QuantizedMatrix> quantized_matrix(Graph&, EdgePtr edge);

/// Numbers of any of these types a byte each, signed or not as they are.
EdgePtr in_bytes(Graph&, EdgePtr constant);

}  // namespace refactor::computation
