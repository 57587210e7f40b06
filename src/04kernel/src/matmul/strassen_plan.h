#pragma once
#include "matmul/matmul.h"
#include "matmul/product.h"

namespace refactor::kernel {

/// How a product is cut into parts for the threads, and a part into blocks.
struct StrassenPlan {
    int64_t batches, m;     ///< matrices, and rows of each
    int64_t rows, columns;  ///< of a part
    int64_t row_parts, column_parts;
    int64_t group;  ///< rows among which pairs are formed
    int64_t block_m, block_k;
    size_t scratch_bytes;  ///< of a thread
    double work;           ///< of the busiest thread, in multiply-adds
};

/// For `multiply_strassen`. `blocked`: A is in blocks of channels, which no half of a block's depth may cut.
StrassenPlan strassen_plan(ProductFunctions const&, MatMulShape const&, int threads, bool blocked);

}  // namespace refactor::kernel
