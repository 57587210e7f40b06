#pragma once
#include "common/result.h"
#include "kernel/ops/integer.h"
#include "passes/quantized_matrix.h"

#include <string>

namespace refactor::computation {

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
};

/// `most`: elements of a block where columns have one scale. Or why it is no such factor.
Result<QuantizedFactor, std::string> quantized_factor(QuantizedMatrix const&, bool transposed, int64_t most);

/// Operands of a BlockMatMul, in their places, for its constant inputs; scales are multiplied by `alpha`.
std::vector<EdgePtr> block_operands(Graph&, QuantizedFactor const&, float alpha);
/// A symmetric factor's numbers as I8, and its scales, f32 [N].
EdgePtr signed_bytes(Graph&, QuantizedFactor const&);
EdgePtr column_scales(Graph&, QuantizedFactor const&);

}  // namespace refactor::computation
