#pragma once
#include "kernel/kernel.h"
#include "matmul/product.h"

namespace refactor::kernel {

/// A constant B [K, N], or [N, K] if `columns`, of T or a smaller type of `WeightType`, in panels, which all products
/// of its width share.
template <class T>
std::shared_ptr<mem_manager::Blob const> pack_panels(ProductFunctionsOf<T> const&, mem_manager::Blob const& b, DataType,
                                                     bool columns, int64_t n, int64_t k, PackCache&);

/// A constant B [K, N], or [N, K] if `columns`, as [N, K] for a product that `takes_columns`. Rows are whole vectors,
/// with zeros.
template <class T>
std::shared_ptr<mem_manager::Blob const> pack_columns(ProductFunctionsOf<T> const&, mem_manager::Blob const& b,
                                                      bool columns, int64_t n, int64_t k, PackCache&);

/// A constant B [N, K] as [K, N].
template <class T>
std::shared_ptr<mem_manager::Blob const> turn_rows(mem_manager::Blob const& b, int64_t n, int64_t k, PackCache&);

}  // namespace refactor::kernel
