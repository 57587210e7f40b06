#pragma once
#include "block_matmul/block_matmul.h"
#include "gather_matmul/routed_product.h"

namespace refactor::kernel {

/// All matrices as one with the columns of each behind each other.
BlockMatMulInfo stack_of(GatherBlockMatMulInfo const&);
/// The sizes of such a product, or why its operands do not fit together.
Result<RoutedProduct, Rejection> routed_product(GatherBlockMatMulInfo const&, BindArgs const&);
/// Why the operands are none of such a product, or empty.
std::string gather_block_mismatch(GatherBlockMatMulInfo const&, Request const&);

/// Rows are rounded to bytes where `may_round` allows it; needs constant weights, scales and zero points, and whole
/// panels of columns.
MaybeKernel make_gather_block_bytes_vnni(GatherBlockMatMulInfo const&, Request const&);
MaybeKernel make_gather_block_bytes_avx2vnni(GatherBlockMatMulInfo const&, Request const&);
MaybeKernel make_gather_block_bytes_avx2(GatherBlockMatMulInfo const&, Request const&);
/// Numbers are unpacked in registers for a few rows of a matrix, and a panel at a time for more of them.
MaybeKernel make_gather_block_avx512(GatherBlockMatMulInfo const&, Request const&);
MaybeKernel make_gather_block_avx2(GatherBlockMatMulInfo const&, Request const&);
MaybeKernel make_gather_block_reference(GatherBlockMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
