#pragma once
#include "cuda/source_text.h"

namespace refactor::kernel::cuda {

/// What the code of a product with packed numbers depends on; see `BlockMatMulInfo`.
struct BlockProductKind {
    DataType a = DataType::F32;  ///< of A and Y
    int bits = 4;
    DataType zeros = DataType::Undefined;  ///< f32, packed u8, or none
    bool ordered = true;                   ///< no input says which block a number belongs to
    bool bias = false, wide = false;
    bool vector = false;                    ///< rows of A are read 4 elements at a time
    int rows = 1;                           ///< of A, where a thread keeps them all
    int words = 1;                          ///< 32-bit words, of one block, that a thread reads at a time
    DataType routes = DataType::Undefined;  ///< of the matrices' numbers, one for each row of Y, i32 or i64; or none

    std::string key() const;
};

/// The argument after the addresses of the operator's inputs, Y and what faults are reported in.
struct BlockProductWords {
    int64_t m = 0, n = 0, k = 0, block = 0, blocks = 0, row_tiles = 0, column_tiles = 0;
    int64_t matrices = 1, share = 1;  ///< of routes; rows of Y for each of A
};

/// Columns of a block of `row_block_source`: 4 for each warp.
inline constexpr int kBlockProductColumns = 32;

/// `rg_block_product`: numbers are unpacked in registers, for few rows of A; the scale and zero point of a block are
/// applied to the sum of its products. With routes a block computes columns of one row.
std::string row_block_source(BlockProductKind const&);
/// `rg_block_product`: tiles of 64 rows and 64 columns; blocks in any order.
std::string tiled_block_source(BlockProductKind const&);

}  // namespace refactor::kernel::cuda
