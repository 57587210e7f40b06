#pragma once
#include "gather_matmul/routed_product.h"
#include "kernel/ops/matmul.h"

namespace refactor::kernel {

inline constexpr size_t kRoutedIndices = 2, kRoutedBias = 3;

/// The sizes of such a product, or why its operands do not fit together.
Result<RoutedProduct, Rejection> routed_product(GatherMatMulInfo const&, BindArgs const&);

/// Why the request is not for this operator on a CPU, or empty.
std::string why_not_gather_matmul(Request const&);

/// A few rows of one matrix are multiplied together with the matrix where it lies, more of them with panels of it: it
/// is read once for them.
MaybeKernel make_gather_matmul_avx512(GatherMatMulInfo const&, Request const&);
MaybeKernel make_gather_matmul_avx2(GatherMatMulInfo const&, Request const&);
/// Sums in f64.
MaybeKernel make_gather_matmul_reference(GatherMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
