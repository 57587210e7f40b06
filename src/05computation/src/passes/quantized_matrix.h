#pragma once
#include "computation/graph.h"
#include "kernel/ops/integer.h"
#include "kernel/ops/quantize.h"
#include "made_constants.h"

#include <optional>

namespace refactor::computation {

/// A constant matrix of integers of 2, 4 or 8 bits that a Dequantize node makes floats of.
struct QuantizedMatrix {
    EdgePtr data = nullptr, scale = nullptr, zero = nullptr;  ///< zero may be null
    int64_t rows = 0, columns = 0;
    kernel::Granularity granularity;

    DataType type() const { return data->value.dtype; }
    SharedBlob const& blob() const { return data->value.constant; }
    /// One scale for all elements.
    bool has_one_scale() const { return element_count(scale->value.shape) == DimExpr(1); }
};

/// That of `edge`, if a Dequantize node makes it, whose operands are computed if they are made of constants.
std::optional<QuantizedMatrix> quantized_matrix(Graph&, EdgePtr edge);

/// Where the scales of blocks along K are, for each column of a product.
struct BlockScales {
    int64_t column = 0, block = 0;  ///< steps from one to the next; 0: they share it
    int64_t ratio = 1;              ///< blocks in a row that share one

    int64_t at(int64_t j, int64_t b) const { return j * column + b / ratio * block; }
};

/// How a product reads such a matrix: as [K, N], or, `transposed`, as [N, K].
struct QuantizedFactor {
    QuantizedMatrix matrix;
    bool transposed = false;
    kernel::BlockMatMulInfo info;
    BlockScales scales;
    bool is_symmetric = false;  ///< bytes around zero, with one scale for each column, as an I8 operand of MatMul

    bool has_scale_of_each_column() const { return info.k > 0 && scales.block == 0; }
};

/// `most`: elements of a block where columns have one scale. Or why it is no such factor.
Result<QuantizedFactor, std::string> quantized_factor(QuantizedMatrix const&, bool transposed, int64_t most);

/// Operands of a BlockMatMul, in their places, for its constant inputs; scales are multiplied by `alpha`.
std::vector<EdgePtr> block_operands(Graph&, QuantizedFactor const&, float alpha);
/// A symmetric factor's numbers as I8, and its scales, f32 [N].
EdgePtr signed_bytes(Graph&, QuantizedFactor const&);
EdgePtr column_scales(Graph&, QuantizedFactor const&);

/// Numbers of any of these types a byte each, signed or not as they are.
EdgePtr in_bytes(Graph&, EdgePtr constant);

}  // namespace refactor::computation
