#include "common/error.h"
#include "elementwise/program.h"
#include "elementwise/reference_operators.h"

#include <limits>

namespace refactor::kernel::elementwise {

namespace {

int64_t integer_power(DataType type, int64_t x, int64_t y) {
    if (is_signed(type) && y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
    auto base = static_cast<uint64_t>(x), result = uint64_t{1};
    for (auto n = static_cast<uint64_t>(y); n; n >>= 1, base *= base)
        if (n & 1) result *= base;
    return static_cast<int64_t>(result);
}

int64_t integer_divide(ExprOp op, DataType type, int64_t x, int64_t y) {
    if (y == 0) throw InvalidInput("integer division of " + std::to_string(x) + " by zero");
    if (!is_signed(type)) {
        auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
        return static_cast<int64_t>(op == ExprOp::Div ? a / b : a % b);
    }
    if (y == -1 && bits_of(type) >= 32 && x == std::numeric_limits<int64_t>::min() >> (64 - bits_of(type))) {
        if (op != ExprOp::Div) return 0;
        throw InvalidInput("integer division of " + std::to_string(x) + " by -1 overflows");
    }
    if (op == ExprOp::Div) return x / y;
    auto r = x % y;
    return op == ExprOp::Mod && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

}  // namespace

int64_t integer_unary(ExprOp op, DataType type, int64_t x) {
    bool negative = is_signed(type) && x < 0;
    auto minus = static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(x));
    switch (op) {
        case ExprOp::Abs:
            return negative ? minus : x;
        case ExprOp::Neg:
            return minus;
        case ExprOp::BitNot:
            return ~x;
        case ExprOp::Not:
            return x == 0;
        case ExprOp::Sign:
            return negative ? -1 : x != 0;
        case ExprOp::Relu:
            return negative ? 0 : x;
        default:
            throw InternalError("no unary integer operator " + std::string(name_of(op)));
    }
}

int64_t integer_binary(ExprOp op, DataType type, int64_t x, int64_t y) {
    auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
    auto width = static_cast<uint64_t>(bits_of(type));
    bool less = is_signed(type) ? x < y : a < b, negative = is_signed(type) && x < 0;
    if (!is_signed(type)) b = static_cast<uint64_t>(y);
    switch (op) {
        case ExprOp::Add:
            return static_cast<int64_t>(a + b);
        case ExprOp::Sub:
            return static_cast<int64_t>(a - b);
        case ExprOp::Mul:
            return static_cast<int64_t>(a * b);
        case ExprOp::Div:
        case ExprOp::Mod:
        case ExprOp::Fmod:
            return integer_divide(op, type, x, y);
        case ExprOp::Pow:
            return integer_power(type, x, y);
        case ExprOp::Min:
            return less ? x : y;
        case ExprOp::Max:
            return less ? y : x;
        case ExprOp::PRelu:
            return negative ? static_cast<int64_t>(a * b) : x;
        case ExprOp::And:
            return x && y;
        case ExprOp::Or:
            return x || y;
        case ExprOp::Xor:
            return (x != 0) != (y != 0);
        case ExprOp::BitAnd:
            return x & y;
        case ExprOp::BitOr:
            return x | y;
        case ExprOp::BitXor:
            return x ^ y;
        case ExprOp::ShiftLeft:
            return b < width ? static_cast<int64_t>(a << b) : 0;
        case ExprOp::ShiftRight:
            if (b >= width) return negative ? -1 : 0;
            return negative ? x >> b : static_cast<int64_t>(a >> b);
        default:
            throw InternalError("no binary integer operator " + std::string(name_of(op)));
    }
}

}  // namespace refactor::kernel::elementwise
