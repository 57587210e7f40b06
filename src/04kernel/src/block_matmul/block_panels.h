#pragma once
#include "block_matmul/block_bytes.h"
#include "block_matmul/block_matmul.h"
#include "mem_manager/blob.h"

namespace refactor::kernel {

/// Constant operands of a product of rounded rows, as the model gives them or in panels of `BlockBytes::kPanel`
/// columns.
struct BlockOperands {
    std::shared_ptr<mem_manager::Blob const> q, scales, zeros;  ///< zeros may be null

    BlockOperands() = default;
    explicit BlockOperands(Request const&);
    /// Those of the panels from the first with column `column` on, a whole number of panels.
    void set(BlockBytes&, int64_t column) const;
};

/// In panels, zeros behind the last column; made once for all kernels that ask.
BlockOperands pack_blocks(BlockMatMulInfo const&, BlockOperands const&, PackCache&);

/// Why rows are not rounded for it, or empty.
std::string why_not_bytes(BlockMatMulInfo const&, Request const&, Isa, BlockBytesFunctions const&);

/// ns for each of n * k, once and for each row.
struct BytesCost {
    double once = 0.03, row;
};
inline BytesCost bytes_cost(Isa isa) {
    return {.row = isa == Isa::Avx512Vnni ? 0.007 : isa == Isa::Avx2Vnni ? 0.014 : 0.02};
}

}  // namespace refactor::kernel
