#pragma once
#include "operator_def.h"

/// What matrix products share: the rules of numpy's matmul.
namespace refactor::onnx {

struct Product {
    Shape a, b, y;  ///< operands as matrices; the result as ONNX wants it
    bool vector_a = false, vector_b = false;

    /// The result before axes of vectors are dropped.
    Shape full() const;
};
/// Fails if the inner sizes differ, the leading ones do not broadcast, or an operand is a scalar.
Inferred<Product> product_of(Shape a, Shape b, SymbolTable const& symbols);
/// The same of inputs `a` and `b`; inner sizes that are not known yet have to be equal in the run.
Inferred<Product> infer_product(InferContext& c, size_t a, size_t b);

}  // namespace refactor::onnx
