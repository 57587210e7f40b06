#pragma once
// Casts, and the tile functions that portable and ISA files instantiate alike. Internal linkage.
#include "elementwise/tile_functors.h"

namespace refactor::kernel::elementwise {
namespace {

/// Values of an x86 conversion: what the integer `I` cannot hold becomes its lowest value. Narrower integers are cut
/// from i32, u32 from i64.
template <class I, class F>
RG_INLINE I truncate(F x) {
    constexpr F kLimit = sizeof(I) == 8 ? F(9223372036854775808.) : F(2147483648.);
    bool fits = (x >= -kLimit) & (x < kLimit);
    return static_cast<I>(fits ? x : -kLimit);
}

template <class R, class A>
struct CastF {
    explicit CastF(TileOp const&) {}
    RG_INLINE R operator()(A a) const {
        if constexpr (!kFloat<A> || kFloat<R>)
            return static_cast<R>(a);
        else if constexpr (sizeof(R) == 8 && !kSigned<R>) {
            constexpr A kHalf = A(9223372036854775808.);
            bool high = a >= kHalf;
            return high ? static_cast<R>(truncate<int64_t>(a - kHalf)) + (R{1} << 63)
                        : static_cast<R>(truncate<int64_t>(a));
        } else if constexpr (sizeof(R) == 8 || (sizeof(R) == 4 && !kSigned<R>)) {
            return static_cast<R>(truncate<int64_t>(a));
        } else {
            return static_cast<R>(truncate<int32_t>(a));
        }
    }
};
template <class A>
struct CastToBool {
    explicit CastToBool(TileOp const&) {}
    RG_INLINE uint8_t operator()(A a) const { return a != A(0); }
};

/// Bool, which is stored as a byte, where it must be told from u8.
enum class Bool8 : uint8_t {};
template <class R, class A>
TileFunction cast_function() {
    if constexpr (__is_same(R, Bool8) && __is_same(A, Bool8))
        return unary_loop<uint8_t, uint8_t, CopyF>;
    else if constexpr (__is_same(R, Bool8))
        return unary_loop<uint8_t, A, CastToBool<A>>;
    else if constexpr (__is_same(A, Bool8))
        return unary_loop<R, uint8_t, CastF<R, uint8_t>>;
    else
        return unary_loop<R, A, CastF<R, A>>;
}

/// Operators of words whatever they mean: copies and choices.
RG_INLINE TileFunction word_function(TileCode code, int bits) {
    if (code == TileCode::Copy) switch (bits) {
            case 8:
                return unary_loop<uint8_t, uint8_t, CopyF>;
            case 16:
                return unary_loop<uint16_t, uint16_t, CopyF>;
            case 32:
                return unary_loop<uint32_t, uint32_t, CopyF>;
            case 64:
                return unary_loop<uint64_t, uint64_t, CopyF>;
            default:
                return nullptr;
        }
    if (code == code_of(ExprOp::Where)) switch (bits) {
            case 8:
                return ternary_loop<uint8_t, uint8_t, WhereF>;
            case 16:
                return ternary_loop<uint16_t, uint8_t, WhereF>;
            case 32:
                return ternary_loop<uint32_t, uint8_t, WhereF>;
            case 64:
                return ternary_loop<uint64_t, uint8_t, WhereF>;
            default:
                return nullptr;
        }
    return nullptr;
}

/// Bits of the types that occur in tiles; `bits_of` belongs to another object file.
RG_INLINE int word_bits(DataType type) {
    switch (type) {
        case DataType::F64:
        case DataType::I64:
        case DataType::U64:
            return 64;
        case DataType::F32:
        case DataType::I32:
        case DataType::U32:
            return 32;
        case DataType::F16:
        case DataType::BF16:
        case DataType::I16:
        case DataType::U16:
            return 16;
        default:
            return 8;
    }
}

RG_INLINE TileFunction logic_function(TileCode code) {
    switch (op_of(code)) {
        case ExprOp::Not:
            return unary_loop<uint8_t, uint8_t, NotF>;
        case ExprOp::And:
            return binary_loop<uint8_t, uint8_t, AndF>;
        case ExprOp::Or:
            return binary_loop<uint8_t, uint8_t, OrF>;
        case ExprOp::Xor:
            return binary_loop<uint8_t, uint8_t, XorF>;
        default:
            return nullptr;
    }
}

/// Arithmetic and comparisons that every numeric type has and that cannot fail.
template <class T>
TileFunction common_function(TileCode code) {
    switch (op_of(code)) {
        case ExprOp::Abs:
            return unary_loop<T, T, AbsF>;
        case ExprOp::Neg:
            return unary_loop<T, T, NegF>;
        case ExprOp::Relu:
            return unary_loop<T, T, ReluF>;
        case ExprOp::Add:
            return binary_loop<T, T, AddF>;
        case ExprOp::Sub:
            return binary_loop<T, T, SubF>;
        case ExprOp::Mul:
            return binary_loop<T, T, MulF>;
        case ExprOp::Min:
            return binary_loop<T, T, MinF>;
        case ExprOp::Max:
            return binary_loop<T, T, MaxF>;
        case ExprOp::Equal:
            return binary_loop<uint8_t, T, EqualF>;
        case ExprOp::Less:
            return binary_loop<uint8_t, T, LessF>;
        case ExprOp::LessEqual:
            return binary_loop<uint8_t, T, LessEqualF>;
        case ExprOp::Greater:
            return binary_loop<uint8_t, T, GreaterF>;
        case ExprOp::GreaterEqual:
            return binary_loop<uint8_t, T, GreaterEqualF>;
        case ExprOp::Clip:
            return ternary_loop<T, T, ClipF>;
        default:
            return nullptr;
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
