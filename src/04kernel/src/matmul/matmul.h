#pragma once
#include "kernel/ops/matmul.h"
#include "reduce/cpu_kernel.h"

namespace refactor::kernel {

/// Sizes of a broadcasting product, known when it is bound.
struct MatMulShape {
    int64_t m = 0, n = 0, k = 0;
    /// One entry for each leading axis of the output that is not merged with its neighbour, outermost first.
    struct Axis {
        int64_t size, a, b;  ///< steps in elements of A and B; 0 where broadcast
    };
    SmallVector<Axis, 4> batch;
    int64_t batches = 1;
    bool scalar_bias = false;

    /// Why the operands do not fit together, or empty.
    std::string init(MatMulInfo const&, BindArgs const&);
    /// Offsets of A and B for one of the `batches`.
    void offsets(int64_t index, int64_t& a, int64_t& b) const {
        a = b = 0;
        for (auto i = batch.size(); i-- > 0; index /= batch[i].size) {
            a += index % batch[i].size * batch[i].a;
            b += index % batch[i].size * batch[i].b;
        }
    }
    /// All batches share B, and A is contiguous over them: the same as one product of batches * m rows.
    bool folds_rows(bool trans_a) const {
        return batches == 1 || (!trans_a && batch.size() == 1 && batch[0].b == 0 && batch[0].a == m * k);
    }
    double operations() const {
        return 2. * static_cast<double>(batches) * static_cast<double>(m) * static_cast<double>(n) *
               static_cast<double>(k);
    }
};

/// What is wrong with the types of the operands, or empty: all are equal, that of Y too, or B is of a smaller type than
/// f32.
std::string why_types_differ(MatMulInfo const&, Request const&);

/// f32, any shapes: register tiles over panels of B (packed once if it is constant), dot products where B is transposed
/// and rows are few. A constant B may be of a smaller type, which is packed as it is.
MaybeKernel make_matmul_avx512amx(MatMulInfo const&, Request const&);
MaybeKernel make_matmul_avx512(MatMulInfo const&, Request const&);
MaybeKernel make_matmul_avx2(MatMulInfo const&, Request const&);
/// The same for f64, where all operands are of that type.
MaybeKernel make_matmul_f64_avx512(MatMulInfo const&, Request const&);
MaybeKernel make_matmul_f64_avx2(MatMulInfo const&, Request const&);
/// f32, one constant B that may be f16 or bf16: both operands rounded to bf16, if `may_round`. A and Y may be bf16.
MaybeKernel make_matmul_rounded_avx512amx(MatMulInfo const&, Request const&);
MaybeKernel make_matmul_rounded_avx512bf16(MatMulInfo const&, Request const&);
/// f32, one constant B, enough rows: one level of Strassen's algorithm. The error of an element is bounded by the
/// largest magnitudes of its row of A and of the one it is paired with, not by its own row alone; rows of different
/// matrices are never paired, so that no sample of a batch touches another.
MaybeKernel make_strassen_avx512(MatMulInfo const&, Request const&);
MaybeKernel make_strassen_avx2(MatMulInfo const&, Request const&);
/// Any float or integer type, any broadcasting; floats accumulate in f64.
MaybeKernel make_matmul_reference(MatMulInfo const&, Request const&);

}  // namespace refactor::kernel
