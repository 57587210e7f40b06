#include "common/half.h"
#include "elementwise/program.h"
#include "elementwise/reference.h"
#include "elementwise/reference_operators.h"

#include <cmath>
#include <limits>

namespace refactor::kernel::elementwise {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The nearest value of the type.
double round_to(DataType type, double x) {
    if (type == DataType::F64) return x;
    auto single = static_cast<float>(x);
    switch (type) {
        case DataType::F32:
            return single;
        case DataType::F16:
            return f32_from_f16(f16_from_f32(single));
        case DataType::BF16:
            return f32_from_bf16(bf16_from_f32(single));
        default:
            return f32_from_f8(type, f8_from_f32(type, single));
    }
}

/// The low bits of the type, extended by its sign or by zeros.
int64_t wrap_to(DataType type, int64_t x) {
    auto unused = 64 - bits_of(type);
    auto shifted = static_cast<uint64_t>(x) << unused;
    return is_signed(type) ? static_cast<int64_t>(shifted) >> unused : static_cast<int64_t>(shifted >> unused);
}

/// As x86 converts: what does not fit becomes the lowest value of i32 (i64 for wide targets), cut to the target.
int64_t integer_of(DataType type, double x) {
    bool wide = bits_of(type) == 64 || type == DataType::U32;
    // The upper half of u64 is converted as a distance from its middle.
    if (type == DataType::U64 && x >= 0x1p63)
        return static_cast<int64_t>(static_cast<uint64_t>(integer_of(DataType::I64, x - 0x1p63)) + (uint64_t{1} << 63));
    double limit = wide ? 0x1p63 : 0x1p31;
    return wrap_to(type, static_cast<int64_t>(x >= -limit && x < limit ? x : -limit));
}

template <class T>
bool compare(ExprOp op, T x, T y) {
    switch (op) {
        case ExprOp::Equal:
            return x == y;
        case ExprOp::Less:
            return x < y;
        case ExprOp::LessEqual:
            return x <= y;
        case ExprOp::Greater:
            return x > y;
        default:
            return x >= y;
    }
}

bool is_inf(ExprInstruction const& code, double x) {
    return (code.alpha != 0 && x == kInfinity) || (code.beta != 0 && x == -kInfinity);
}

}  // namespace

Number evaluate(ExprInstruction const& code, DataType const* types, Number const* operands) {
    auto to = code.dtype, from = types[0];
    bool real = is_float(to), real_source = is_float(from);
    auto const &x = operands[0], &y = operands[1], &z = operands[2];
    auto result = [&](double value) { return Number{round_to(to, value), 0}; };
    auto whole = [&](int64_t value) { return Number{0, to == DataType::Bool ? value != 0 : wrap_to(to, value)}; };
    switch (code.op) {
        case ExprOp::Cast:
            if (to == DataType::Bool) return whole(real_source ? x.real != 0 : x.integer != 0);
            if (!real) return whole(real_source ? integer_of(to, x.real) : x.integer);
            if (real_source) return result(x.real);
            // Straight to the register's type: a double between would round twice.
            if (to == DataType::F64 && from != DataType::U64) return result(static_cast<double>(x.integer));
            if (to == DataType::F64) return result(static_cast<double>(static_cast<uint64_t>(x.integer)));
            return result(from == DataType::U64 ? static_cast<float>(static_cast<uint64_t>(x.integer))
                                                : static_cast<float>(x.integer));
        case ExprOp::IsNan:
            return whole(x.real != x.real);
        case ExprOp::IsInf:
            return whole(is_inf(code, x.real));
        case ExprOp::Where:
            return x.integer ? y : z;
        case ExprOp::Pow:
            if (!real && is_float(types[1]))
                return whole(integer_of(to, std::pow(static_cast<double>(x.integer), y.real)));
            if (real && !is_float(types[1])) return result(std::pow(x.real, static_cast<double>(y.integer)));
            break;
        default:
            break;
    }
    if (code.op >= ExprOp::Equal && code.op <= ExprOp::GreaterEqual) {
        if (real_source) return whole(compare(code.op, x.real, y.real));
        if (is_signed(from)) return whole(compare(code.op, x.integer, y.integer));
        return whole(compare(code.op, static_cast<uint64_t>(x.integer), static_cast<uint64_t>(y.integer)));
    }
    auto arity = arity_of(code.op);
    if (real) {
        if (code.op == ExprOp::Fma) return result(std::fma(x.real, y.real, z.real));
        if (code.op == ExprOp::Clip)
            return result(real_binary(ExprOp::Min, real_binary(ExprOp::Max, x.real, y.real), z.real));
        return result(arity == 1 ? real_unary(code.op, x.real, code.alpha, code.beta)
                                 : real_binary(code.op, x.real, y.real));
    }
    if (code.op == ExprOp::Fma)
        return whole(integer_binary(ExprOp::Add, to, integer_binary(ExprOp::Mul, to, x.integer, y.integer), z.integer));
    if (code.op == ExprOp::Clip)
        return whole(integer_binary(ExprOp::Min, to, integer_binary(ExprOp::Max, to, x.integer, y.integer), z.integer));
    return whole(arity == 1 ? integer_unary(code.op, to, x.integer)
                            : integer_binary(code.op, to, x.integer, y.integer));
}

}  // namespace refactor::kernel::elementwise
