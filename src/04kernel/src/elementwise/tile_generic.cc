#include "common/error.h"
#include "common/half.h"
#include "elementwise/integer_functors.h"
#include "elementwise/scalar_integer.h"
#include "elementwise/scalar_math.h"
#include "elementwise/spread_impl.h"
#include "elementwise/tile_tables.h"

#include <cmath>
#include <type_traits>

namespace refactor::kernel::elementwise {
namespace {

template <class T>
TileFunction float_unary(TileCode code) {
    switch (op_of(code)) {
#define RG_OP(name)    \
    case ExprOp::name: \
        return unary_loop<T, T, name##F>;
        RG_FLOAT_UNARY(RG_OP)
#undef RG_OP
        case ExprOp::IsNan:
            return unary_loop<uint8_t, T, IsNanF>;
        case ExprOp::IsInf:
            return unary_loop<uint8_t, T, IsInfF>;
        default:
            return nullptr;
    }
}

template <class T>
TileFunction float_function(TileCode code) {
    if (auto common = common_function<T>(code)) return common;
    switch (code) {
        case TileCode::Square:
            return unary_loop<T, T, SquareF>;
        case TileCode::Cube:
            return unary_loop<T, T, CubeF>;
        case TileCode::SquareRootPower:
            return unary_loop<T, T, SquareRootPowerF>;
        default:
            break;
    }
    switch (op_of(code)) {
        case ExprOp::Div:
            return binary_loop<T, T, DivF>;
        case ExprOp::Pow:
            return binary_loop<T, T, PowF>;
        case ExprOp::Mod:
            return binary_loop<T, T, FloatModF>;
        case ExprOp::Fmod:
            return binary_loop<T, T, FloatFmodF>;
        case ExprOp::PRelu:
            return binary_loop<T, T, PReluF>;
        case ExprOp::Fma:
            return ternary_loop<T, T, FmaF>;
        default:
            return float_unary<T>(code);
    }
}

template <class T>
TileFunction integer_function(TileCode code) {
    if (auto common = common_function<T>(code)) return common;
    switch (code) {
        case TileCode::Square:
            return unary_loop<T, T, SquareF>;
        case TileCode::Cube:
            return unary_loop<T, T, CubeF>;
        default:
            break;
    }
    switch (op_of(code)) {
        case ExprOp::Div:
            return exact_binary_loop<T, T, IntegerDivF>;
        case ExprOp::Mod:
            return exact_binary_loop<T, T, IntegerModF>;
        case ExprOp::Fmod:
            return exact_binary_loop<T, T, IntegerFmodF>;
        case ExprOp::Pow:
            return exact_binary_loop<T, T, IntegerPowF>;
        case ExprOp::PRelu:
            return binary_loop<T, T, PReluF>;
        case ExprOp::Fma:
            return ternary_loop<T, T, FmaF>;
        default:
            return bit_function<T>(code);
    }
}

TileFunction bool_function(TileCode code) {
    switch (op_of(code)) {
        case ExprOp::Equal:
        case ExprOp::Less:
        case ExprOp::LessEqual:
        case ExprOp::Greater:
        case ExprOp::GreaterEqual:
        case ExprOp::Min:
        case ExprOp::Max:
            return common_function<uint8_t>(code);
        default:
            return logic_function(code);
    }
}

template <DataType kType>
struct ToF32 {
    explicit ToF32(TileOp const&) {}
    float operator()(uint16_t a) const {
        if constexpr (kType == DataType::F16)
            return f32_from_f16(a);
        else
            return f32_from_bf16(a);
    }
    float operator()(uint8_t a) const { return f32_from_f8(kType, a); }
};
template <DataType kType>
struct FromF32 {
    explicit FromF32(TileOp const&) {}
    auto operator()(float a) const {
        if constexpr (kType == DataType::F16)
            return f16_from_f32(a);
        else if constexpr (kType == DataType::BF16)
            return bf16_from_f32(a);
        else
            return f8_from_f32(kType, a);
    }
};
template <DataType kType>
struct RoundF32 {
    explicit RoundF32(TileOp const&) {}
    float operator()(float a) const {
        TileOp none;
        return ToF32<kType>(none)(FromF32<kType>(none)(a));
    }
};

/// Storage type `kType` against f32.
template <DataType kType, class Stored>
TileFunction small_float(TileKey key) {
    if (key.code == TileCode::Round) return unary_loop<float, float, RoundF32<kType>>;
    if (key.operand == kType) return unary_loop<float, Stored, ToF32<kType>>;
    return unary_loop<Stored, float, FromF32<kType>>;
}

TileFunction small_float_function(TileKey key) {
    bool to = key.operand == DataType::F32, from = key.result == DataType::F32;
    if (!to && !from) return nullptr;
    switch (to && key.code != TileCode::Round ? key.result : key.operand) {
        case DataType::F16:
            return small_float<DataType::F16, uint16_t>(key);
        case DataType::BF16:
            return small_float<DataType::BF16, uint16_t>(key);
        case DataType::F8E4M3FN:
            return small_float<DataType::F8E4M3FN, uint8_t>(key);
        case DataType::F8E4M3FNUZ:
            return small_float<DataType::F8E4M3FNUZ, uint8_t>(key);
        case DataType::F8E5M2:
            return small_float<DataType::F8E5M2, uint8_t>(key);
        case DataType::F8E5M2FNUZ:
            return small_float<DataType::F8E5M2FNUZ, uint8_t>(key);
        default:
            return nullptr;
    }
}

/// Calls `f` with a value of the C++ type of a register, or returns null.
template <class F>
TileFunction with_type(DataType type, F&& f) {
    switch (type) {
        case DataType::F32:
            return f(float{});
        case DataType::F64:
            return f(double{});
        case DataType::I8:
            return f(int8_t{});
        case DataType::I16:
            return f(int16_t{});
        case DataType::I32:
            return f(int32_t{});
        case DataType::I64:
            return f(int64_t{});
        case DataType::U8:
            return f(uint8_t{});
        case DataType::U16:
            return f(uint16_t{});
        case DataType::U32:
            return f(uint32_t{});
        case DataType::U64:
            return f(uint64_t{});
        case DataType::Bool:
            return f(Bool8{});
        default:
            return nullptr;
    }
}

}  // namespace

void exact_i32_division(ExprOp kind, TileOp const& op, int32_t const* a, int32_t const* b, int32_t* out, int64_t n) {
    TileOp one = op;
    one.in[0] = 0, one.in[1] = 1, one.out = 2;
    auto bytes = [](int32_t const* p) { return reinterpret_cast<std::byte*>(const_cast<int32_t*>(p)); };
    std::byte* const slots[]{bytes(a), bytes(b), bytes(out)};
    integer_function<int32_t>(code_of(kind))(one, slots, n);
}

void exact_f32_remainder(ExprOp kind, float const* a, float const* b, float* out, int64_t n) {
    TileOp const none;
    for (int64_t i = 0; i < n; ++i)
        out[i] = kind == ExprOp::Mod ? FloatModF(none)(a[i], b[i]) : FloatFmodF(none)(a[i], b[i]);
}

SpreadFunction spread_generic(SpreadKey key) { return find_spread_function<16>(key); }

TileFunction tile_generic(TileKey key) {
    if (auto word = word_function(key.code, word_bits(key.operand))) return word;
    if (key.code == TileCode::Round) return small_float_function(key);
    if (key.code == code_of(ExprOp::Cast)) {
        auto function = with_type(key.result, [&](auto result) {
            return with_type(key.operand,
                             [](auto operand) { return cast_function<decltype(result), decltype(operand)>(); });
        });
        return function ? function : small_float_function(key);
    }
    return with_type(key.operand, [&](auto value) -> TileFunction {
        using T = decltype(value);
        if constexpr (std::is_floating_point_v<T>)
            return float_function<T>(key.code);
        else if constexpr (std::is_integral_v<T>)
            return integer_function<T>(key.code);
        else
            return bool_function(key.code);
    });
}

}  // namespace refactor::kernel::elementwise
