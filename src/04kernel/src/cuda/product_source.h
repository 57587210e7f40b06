#pragma once
#include "cuda/source_text.h"
#include "kernel/ops/normalized_matmul.h"
#include "matmul/matmul.h"

#include <optional>

namespace refactor::kernel::cuda {

/// What the code of a generated product depends on.
struct ProductKind {
    DataType a = DataType::F32, b = DataType::F32;
    MatMulInfo info;
    std::optional<LayerNormInfo> norm;  ///< of rows of A, where they are few
    bool scalar_bias = false;
    bool constant_b = false;                  ///< nothing that a run does writes B
    bool constant_columns = false;            ///< nor scales and bias
    bool wide = false;                        ///< indices need 64 bits
    bool vector_a = false, vector_b = false;  ///< rows are read several elements at a time
    int rows = 1;                             ///< of A, where a thread keeps them all
    int columns = 1, steps = 1;               ///< of a warp that walks along rows of B, and fetched runs of each
    int tile = 64;                            ///< rows and columns of a block, where they are in shared memory
    int64_t inner = 0;                        ///< elements of a row that is normalised

    std::string key() const;
};

/// Leading axes that a kernel walks through by itself.
inline constexpr size_t kMostBatchAxes = 4;

/// The argument of all functions after the addresses of A, B, scales, bias, residual, Y, partial sums, scale and bias
/// of the normalisation.
struct ProductWords {
    int64_t m, n, k, batches;
    int64_t size[kMostBatchAxes], step_a[kMostBatchAxes], step_b[kMostBatchAxes];  ///< innermost first
    int64_t row_tiles = 1, column_tiles = 1, splits = 1, inner_each = 0;

    explicit ProductWords(MatMulShape const&);
};

/// The type of an element of B in memory: weights may be floats of 8 bits. Null where no code is generated for it.
char const* weight_text(DataType type);
/// What is wrong with the types of the operands, or empty: all are equal, or A is f32, f16 or bf16 and B of fewer bits:
/// f16, bf16, f8, or i8 with scales.
std::string why_weights_differ(MatMulInfo const& info, Request const& request);

/// `rg_product`: tiles of Y from slabs of A and B in shared memory; any types, any transposition.
std::string tiled_product_source(ProductKind const&);
/// `rg_product`: for few rows of A, every thread reads 16 bytes of B at a time; `rg_product_sum` adds up the splits of
/// the inner size, if there are several.
std::string row_product_source(ProductKind const&);

/// `rows_of_a`: rows that a block normalises before it multiplies them; behind the arguments of a product. B, scale and
/// bias are constants.
std::string normalized_rows_source(ProductKind const&);
/// Threads of a block that normalise a row: a warp if there are several short ones, else all 256.
int lanes_of_row(ProductKind const&);
/// Why a block cannot normalise such rows, or empty.
std::string why_rows_stay(ProductKind const&);

/// Columns of Y that a block of 256 threads computes where B is not transposed: 8 threads of 16 bytes each make a line
/// of the cache.
constexpr int row_product_columns(int64_t b_bytes) { return 8 * static_cast<int>(16 / b_bytes); }

}  // namespace refactor::kernel::cuda
