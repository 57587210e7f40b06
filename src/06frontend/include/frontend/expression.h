#pragma once
#include "kernel/ops/elementwise.h"

#include <initializer_list>

namespace refactor::frontend {

/// Writes elementwise programs. Values are numbers of instructions. Example, `relu(x + 1)`:
///
///     Expression e;
///     auto x = e.input(0, DataType::F32);
///     auto info = e.finish(e.unary(ExprOp::Relu, e.binary(ExprOp::Add, x, e.constant(DataType::F32, 1))));
class Expression {
    kernel::ElementwiseInfo info_;

    uint16_t push(kernel::ExprInstruction instruction);

public:
    using Op = kernel::ExprOp;
    using Value = uint16_t;

    Value input(uint16_t index, DataType dtype);
    /// Of an integer type: cut toward zero, and to the range of i64.
    Value constant(DataType dtype, double value);
    /// Of an integer type: exact beyond 2^53, too.
    Value integer(DataType dtype, int64_t value);
    /// Result type: that of `x`, bool for IsNan, IsInf and Not.
    Value unary(Op op, Value x, float alpha = 0, float beta = 0);
    /// Result type: that of `a`, bool for comparisons. Both operands have the same type.
    Value binary(Op op, Value a, Value b);
    Value select(Value condition, Value a, Value b);
    /// min(max(x, low), high)
    Value clip(Value x, Value low, Value high);
    Value cast(Value x, DataType dtype);
    DataType dtype(Value x) const { return info_.code[x].dtype; }

    kernel::ElementwiseInfo finish(Value result);
};

}  // namespace refactor::frontend
