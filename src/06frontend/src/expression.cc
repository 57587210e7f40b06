#include "frontend/expression.h"

namespace refactor::frontend {

using kernel::ExprInstruction;

uint16_t Expression::push(ExprInstruction instruction) {
    info_.code.push_back(instruction);
    return static_cast<uint16_t>(info_.code.size() - 1);
}

Expression::Value Expression::input(uint16_t index, DataType dtype) {
    return push({.op = Op::Input, .dtype = dtype, .operands = {index}});
}

Expression::Value Expression::constant(DataType dtype, double value) {
    if (is_float(dtype)) return push({.op = Op::Constant, .dtype = dtype, .value = value});
    int64_t whole = value >= 0x1p63 ? INT64_MAX : value >= -0x1p63 ? static_cast<int64_t>(value) : INT64_MIN;
    return push({.op = Op::Constant, .dtype = dtype, .value = value, .integer = whole});
}

Expression::Value Expression::integer(DataType dtype, int64_t value) {
    return push({.op = Op::Constant, .dtype = dtype, .value = static_cast<double>(value), .integer = value});
}

Expression::Value Expression::unary(Op op, Value x, float alpha, float beta) {
    auto type = op == Op::IsNan || op == Op::IsInf ? DataType::Bool : dtype(x);
    return push({.op = op, .dtype = type, .operands = {x}, .alpha = alpha, .beta = beta});
}

Expression::Value Expression::binary(Op op, Value a, Value b) {
    auto type = op >= Op::Equal && op <= Op::GreaterEqual ? DataType::Bool : dtype(a);
    return push({.op = op, .dtype = type, .operands = {a, b}});
}

Expression::Value Expression::select(Value condition, Value a, Value b) {
    return push({.op = Op::Where, .dtype = dtype(a), .operands = {condition, a, b}});
}

Expression::Value Expression::clip(Value x, Value low, Value high) {
    return push({.op = Op::Clip, .dtype = dtype(x), .operands = {x, low, high}});
}

Expression::Value Expression::cast(Value x, DataType dtype) {
    if (this->dtype(x) == dtype) return x;
    return push({.op = Op::Cast, .dtype = dtype, .operands = {x}});
}

kernel::ElementwiseInfo Expression::finish(Value result) {
    info_.outputs = {result};
    return std::move(info_);
}

}  // namespace refactor::frontend
