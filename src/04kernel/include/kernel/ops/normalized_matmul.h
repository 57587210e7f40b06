#pragma once
#include "kernel/ops/matmul.h"
#include "kernel/ops/reduce.h"

namespace refactor::kernel {

/// Rows that are normalised and then multiplied by a constant: `Y = product(norm(X), B, …)`, without the normalised
/// rows in memory where they are few.
///
/// Inputs: X [..., M, K]; B and what follows it as `product` has them; scale [K] in the type of X; bias [K] if
/// `norm.has_bias`. `norm` is over the last axis, without residual; the product's A is not transposed. B, scale and
/// bias are constants. f32, f64, f16 and bf16, B of what `MatMulInfo` allows with them. GPU only.
struct NormalizedMatMulInfo {
    static constexpr char const* kType = "NormalizedMatMul";
    LayerNormInfo norm;
    MatMulInfo product;
    /// Inputs of the product, which stand before scale and bias.
    size_t product_inputs() const {
        return size_t{2} + product.scaled + product.epilogue.bias + product.epilogue.residual;
    }
    std::string attributes() const;
};
Candidates candidates(NormalizedMatMulInfo const&, Request const&);

}  // namespace refactor::kernel
