#pragma once
#include "kernel/ops/integer.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

struct BlockDots;

/// Why the operands are none of such a product, or empty.
std::string block_matmul_mismatch(BlockMatMulInfo const&, Request const&);
/// The same for sizes.
std::string block_matmul_mismatch(BlockMatMulInfo const&, BindArgs const&);
/// The latter for all inputs but A and the blocks of elements, with `matrices` of them behind each other.
std::string block_weights_mismatch(BlockMatMulInfo const&, int64_t matrices, BindArgs const&);

/// The columns of a task's weights from number `first` on, with zero points as floats (null: the same for all); rows
/// and results are left open.
BlockDots block_columns(BlockMatMulInfo const&, void* const* arguments, float const* zeros, int64_t first);

/// Why a block is no power of two of whole words, or empty.
std::string why_not_words(BlockMatMulInfo const&);

/// Number `i` of a packed array.
inline int32_t packed_at(uint8_t const* data, int32_t bits, int64_t i) {
    auto bit = i * bits;
    return data[bit >> 3] >> (bit & 7) & ((1 << bits) - 1);
}
/// The zero point of a block of a column.
float zero_of(BlockMatMulInfo const&, void const* zeros, DataType type, int64_t column, int64_t block);

/// All zero points of packed ones, [n][blocks].
void widen_zeros(BlockMatMulInfo const&, void const* zeros, DataType type, float* target);
/// The same of constants, made once for all kernels that ask.
std::shared_ptr<mem_manager::Blob const> widened_zeros(BlockMatMulInfo const&, mem_manager::Blob const& zeros,
                                                       PackCache&);

/// A is rounded to bytes where `may_round` allows it; needs constant weights, scales and zero points.
MaybeKernel make_block_matmul_bytes_vnni(BlockMatMulInfo const&, Request const&);
MaybeKernel make_block_matmul_bytes_avx2vnni(BlockMatMulInfo const&, Request const&);
MaybeKernel make_block_matmul_bytes_avx2(BlockMatMulInfo const&, Request const&);
/// Numbers are unpacked in registers, for a few rows and columns at a time; blocks of at least a vector.
MaybeKernel make_block_matmul_avx512(BlockMatMulInfo const&, Request const&);
MaybeKernel make_block_matmul_avx2(BlockMatMulInfo const&, Request const&);
/// Columns are widened to f32, a panel at a time, for a product of many rows; blocks of whole vectors.
MaybeKernel make_block_matmul_widened_avx512(BlockMatMulInfo const&, Request const&);
MaybeKernel make_block_matmul_widened_avx2(BlockMatMulInfo const&, Request const&);
MaybeKernel make_block_matmul_reference(BlockMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
