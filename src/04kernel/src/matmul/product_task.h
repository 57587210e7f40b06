#pragma once
#include "matmul/matmul.h"
#include "matmul/product.h"

namespace refactor::kernel {

/// Whether `multiply_columns` takes less time than the tiles. B is [N, K] or `packed` so, or is turned in every run.
template <class T>
bool takes_columns(ProductFunctionsOf<T> const&, MatMulInfo const&, MatMulShape const&, WeightType, bool packed);

/// Whether `multiply_flat` takes a B [K, N].
template <class T>
bool takes_flat(ProductFunctionsOf<T> const&, MatMulShape const&, WeightType);

/// Whether tiles (AMX) take less time than vectors.
template <class T>
bool takes_tiles(ProductFunctionsOf<T> const&, MatMulInfo const&, MatMulShape const&, WeightType);

/// Operands of products of pairs that are bf16 in memory: A, if k is even and B packed; Y, if there is no residual.
struct NarrowOperands {
    bool a = false, y = false;
};

/// A product in blocks and parts for the threads. `packed`: B in panels, which are of `weight_type`, in columns if it
/// `takes_columns`, or [K, N] if it `takes_flat`; null: B is an operand. The functions live as long as the task.
template <class T>
std::unique_ptr<runtime::Task> make_product_task(ProductFunctionsOf<T> const&, MatMulInfo const&, MatMulShape const&,
                                                 WeightType weight_type,
                                                 std::shared_ptr<mem_manager::Blob const> packed, int threads,
                                                 NarrowOperands narrow = {});

}  // namespace refactor::kernel
