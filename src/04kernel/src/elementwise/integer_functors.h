#pragma once
// Functors of signs, bits and shifts of integers. Internal linkage.
#include "elementwise/tile_functors.h"

#include <type_traits>

namespace refactor::kernel::elementwise {
namespace {

struct IntegerSignF {
    explicit IntegerSignF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a) const {
        return static_cast<T>((a > 0) - (a < 0));
    }
};
#define RG_BITS(name, expression)                \
    struct name##F {                             \
        explicit name##F(TileOp const&) {}       \
        template <class T>                       \
        RG_INLINE T operator()(T a, T b) const { \
            return static_cast<T>(expression);   \
        }                                        \
    };
RG_BITS(BitAnd, a& b)
RG_BITS(BitOr, a | b)
RG_BITS(BitXor, a ^ b)
#undef RG_BITS
struct BitNotF {
    explicit BitNotF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a) const {
        return static_cast<T>(~a);
    }
};
/// Shifting by the width or more (or by a negative number) leaves nothing.
struct ShiftLeftF {
    explicit ShiftLeftF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a, T b) const {
        auto n = static_cast<std::make_unsigned_t<T>>(b);
        return n < sizeof(T) * 8 ? static_cast<T>(static_cast<WrapOf<T>>(a) << n) : T(0);
    }
};
struct ShiftRightF {
    explicit ShiftRightF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a, T b) const {
        auto n = static_cast<std::make_unsigned_t<T>>(b);
        if (n < sizeof(T) * 8) return static_cast<T>(a >> n);
        return a < 0 ? T(-1) : T(0);
    }
};

template <class T>
TileFunction bit_function(TileCode code) {
    switch (op_of(code)) {
        case ExprOp::Sign:
            return unary_loop<T, T, IntegerSignF>;
        case ExprOp::BitNot:
            return unary_loop<T, T, BitNotF>;
        case ExprOp::BitAnd:
            return binary_loop<T, T, BitAndF>;
        case ExprOp::BitOr:
            return binary_loop<T, T, BitOrF>;
        case ExprOp::BitXor:
            return binary_loop<T, T, BitXorF>;
        case ExprOp::ShiftLeft:
            return binary_loop<T, T, ShiftLeftF>;
        case ExprOp::ShiftRight:
            return binary_loop<T, T, ShiftRightF>;
        default:
            return nullptr;
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise
