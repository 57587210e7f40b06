#pragma once
#include "kernel/ops/elementwise.h"

namespace refactor::kernel::elementwise {

/// The value of a register in the reference: floats of any width as double, integers and bool as 64 bits (unsigned ones
/// bit by bit).
struct Number {
    double real = 0;
    int64_t integer = 0;
};

/// What instruction `code` makes of its operands, whose types are `types`; rounded or wrapped to `code.dtype`. Throws
/// `InvalidInput`.
Number evaluate(ExprInstruction const& code, DataType const* types, Number const* operands);

Number load_number(DataType type, void const* data, int64_t index);
void store_number(DataType type, void* data, int64_t index, Number value);

}  // namespace refactor::kernel::elementwise
