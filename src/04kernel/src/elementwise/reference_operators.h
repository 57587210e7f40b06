#pragma once
#include "kernel/ops/elementwise.h"

/// The operators of the reference on numbers of one kind, not yet rounded or wrapped to a type.
namespace refactor::kernel::elementwise {

double real_unary(ExprOp op, double x, double alpha, double beta);
double real_binary(ExprOp op, double x, double y);
int64_t integer_unary(ExprOp op, DataType type, int64_t x);
/// Throws `InvalidInput` for a division by zero, or one that overflows.
int64_t integer_binary(ExprOp op, DataType type, int64_t x, int64_t y);

}  // namespace refactor::kernel::elementwise
