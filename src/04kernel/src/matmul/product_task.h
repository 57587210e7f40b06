#pragma once
#include "matmul/matmul.h"
#include "matmul/product.h"

namespace refactor::kernel {

/// A product in blocks and parts for the threads. `packed`: B in panels, which are of `weight_type`; null: B is an
/// operand. The functions live as long as the task.
template <class T>
std::unique_ptr<runtime::Task> make_product_task(ProductFunctionsOf<T> const&, MatMulInfo const&, MatMulShape const&,
                                                 WeightType weight_type,
                                                 std::shared_ptr<mem_manager::Blob const> packed, int threads);

}  // namespace refactor::kernel
