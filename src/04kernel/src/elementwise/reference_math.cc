#include "common/error.h"
#include "common/half.h"
#include "elementwise/program.h"
#include "elementwise/reference.h"

#include <cmath>
#include <cstring>
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

double unit_clip(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x != x ? x : std::max(x, 0.) + std::log1p(std::exp(-std::abs(x))); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

// A table of one line an instruction.  NOLINTNEXTLINE(readability-function-size)
double real_unary(ExprOp op, double x, double a, double b) {
    switch (op) {
        case ExprOp::Abs:
            return std::abs(x);
        case ExprOp::Neg:
            return -x;
        case ExprOp::Sign:
            return sign(x);
        case ExprOp::Floor:
            return std::floor(x);
        case ExprOp::Ceil:
            return std::ceil(x);
        case ExprOp::Round:
            return std::nearbyint(x);
        case ExprOp::Sqrt:
            return std::sqrt(x);
        case ExprOp::Rsqrt:
            return 1 / std::sqrt(x);
        case ExprOp::Reciprocal:
            return 1 / x;
        case ExprOp::Exp:
            return std::exp(x);
        case ExprOp::Log:
            return std::log(x);
        case ExprOp::Erf:
            return std::erf(x);
        case ExprOp::Sin:
            return std::sin(x);
        case ExprOp::Cos:
            return std::cos(x);
        case ExprOp::Tan:
            return std::tan(x);
        case ExprOp::Asin:
            return std::asin(x);
        case ExprOp::Acos:
            return std::acos(x);
        case ExprOp::Atan:
            return std::atan(x);
        case ExprOp::Sinh:
            return std::sinh(x);
        case ExprOp::Cosh:
            return std::cosh(x);
        case ExprOp::Tanh:
            return std::tanh(x);
        case ExprOp::Asinh:
            return std::asinh(x);
        case ExprOp::Acosh:
            return std::acosh(x);
        case ExprOp::Atanh:
            return std::atanh(x);
        case ExprOp::Sigmoid:
            return sigmoid(x);
        case ExprOp::Relu:
            return x < 0 ? 0 : x;
        case ExprOp::Silu:
            return x * sigmoid(x);
        case ExprOp::Softplus:
            return softplus(x);
        case ExprOp::Softsign:
            return x / (1 + std::abs(x));
        case ExprOp::Mish:
            return x * std::tanh(softplus(x));
        case ExprOp::GeluErf:
            return 0.5 * x * (1 + std::erf(x / std::sqrt(2.)));
        case ExprOp::GeluTanh:
            return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
        case ExprOp::HardSwish:
            return x * unit_clip(x / 6 + 0.5);
        case ExprOp::LeakyRelu:
            return x < 0 ? a * x : x;
        case ExprOp::Elu:
            return x < 0 ? a * std::expm1(x) : x;
        case ExprOp::Selu:
            return x > 0 ? b * x : b * a * std::expm1(x);
        case ExprOp::Celu:
            return x < 0 ? a * std::expm1(x / a) : x;
        case ExprOp::HardSigmoid:
            return unit_clip(a * x + b);
        case ExprOp::ThresholdedRelu:
            return x > a ? x : 0;
        case ExprOp::Shrink:
            return x < -a ? x + b : x > a ? x - b : 0;
        default:
            throw InternalError("no unary float operator " + std::string(name_of(op)));
    }
}

double real_binary(ExprOp op, double x, double y) {
    switch (op) {
        case ExprOp::Add:
            return x + y;
        case ExprOp::Sub:
            return x - y;
        case ExprOp::Mul:
            return x * y;
        case ExprOp::Div:
            return x / y;
        case ExprOp::Pow:
            return std::pow(x, y);
        case ExprOp::Fmod:
            return std::fmod(x, y);
        case ExprOp::Mod: {
            auto r = std::fmod(x, y);
            return r == 0 ? std::copysign(r, y) : (r < 0) != (y < 0) ? r + y : r;
        }
        case ExprOp::Min:
            return x != x || x < y ? x : y;
        case ExprOp::Max:
            return x != x || x > y ? x : y;
        case ExprOp::PRelu:
            return x < 0 ? x * y : x;
        default:
            throw InternalError("no binary float operator " + std::string(name_of(op)));
    }
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
    if (y == -1 && bits_of(type) >= 32 && x == std::numeric_limits<int64_t>::min() >> (64 - bits_of(type)))
        throw InvalidInput("integer division of " + std::to_string(x) + " by -1 overflows");
    if (op == ExprOp::Div) return x / y;
    auto r = x % y;
    return op == ExprOp::Mod && r != 0 && (r < 0) != (y < 0) ? r + y : r;
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

namespace {

template <class T>
T element(void const* data, int64_t index) {
    return static_cast<T const*>(data)[index];
}

}  // namespace

Number load_number(DataType type, void const* data, int64_t index) {
    switch (type) {
        case DataType::F32:
            return {element<float>(data, index), 0};
        case DataType::F64:
            return {element<double>(data, index), 0};
        case DataType::F16:
            return {f32_from_f16(element<uint16_t>(data, index)), 0};
        case DataType::BF16:
            return {f32_from_bf16(element<uint16_t>(data, index)), 0};
        case DataType::I8:
            return {0, element<int8_t>(data, index)};
        case DataType::I16:
            return {0, element<int16_t>(data, index)};
        case DataType::I32:
            return {0, element<int32_t>(data, index)};
        case DataType::I64:
            return {0, element<int64_t>(data, index)};
        case DataType::U8:
            return {0, element<uint8_t>(data, index)};
        case DataType::U16:
            return {0, element<uint16_t>(data, index)};
        case DataType::U32:
            return {0, element<uint32_t>(data, index)};
        case DataType::U64:
            return {0, static_cast<int64_t>(element<uint64_t>(data, index))};
        case DataType::Bool:
            return {0, element<uint8_t>(data, index) != 0};
        default:
            return {f32_from_f8(type, element<uint8_t>(data, index)), 0};
    }
}

void store_number(DataType type, void* data, int64_t index, Number value) {
    auto single = static_cast<float>(value.real);
    auto put = [&](auto v) { static_cast<decltype(v)*>(data)[index] = v; };
    switch (type) {
        case DataType::F32:
            return put(single);
        case DataType::F64:
            return put(value.real);
        case DataType::F16:
            return put(f16_from_f32(single));
        case DataType::BF16:
            return put(bf16_from_f32(single));
        case DataType::I8:
        case DataType::U8:
        case DataType::Bool:
            return put(static_cast<uint8_t>(value.integer));
        case DataType::I16:
        case DataType::U16:
            return put(static_cast<uint16_t>(value.integer));
        case DataType::I32:
        case DataType::U32:
            return put(static_cast<uint32_t>(value.integer));
        case DataType::I64:
        case DataType::U64:
            return put(static_cast<uint64_t>(value.integer));
        default:
            return put(f8_from_f32(type, single));
    }
}

}  // namespace refactor::kernel::elementwise
