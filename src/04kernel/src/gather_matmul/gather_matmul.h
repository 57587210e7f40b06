#pragma once
#include "kernel/ops/matmul.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Sizes of a product of routed rows, known when it is bound.
struct GatherMatMulShape {
    int64_t rows, k, n, matrices;
    DataType index;

    /// Why the operands do not fit together, or empty.
    std::string init(GatherMatMulInfo const&, BindArgs const&);
    /// Of row `t`, checked and counted from 0.
    int64_t matrix_of(void const* indices, int64_t t) const;
    double operations() const { return 2. * static_cast<double>(rows * k) * static_cast<double>(n); }
};

/// Why the request is not for this operator on a CPU, or empty.
std::string why_not_gather_matmul(Request const&);

/// Rows of one matrix are multiplied together, up to a few at a time, with the matrix where it lies: it is read once
/// for them, and nothing is packed or copied but the rows.
MaybeKernel make_gather_matmul_avx512(GatherMatMulInfo const&, Request const&);
MaybeKernel make_gather_matmul_avx2(GatherMatMulInfo const&, Request const&);
/// Sums in f64.
MaybeKernel make_gather_matmul_reference(GatherMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
