#pragma once
// Loops over tiles, and what needs no mathematics: shared by the portable and the ISA files. Everything has internal
// linkage.
#include "elementwise/tile.h"

#define RG_INLINE [[gnu::always_inline]] inline

namespace refactor::kernel::elementwise {
namespace {

/// Elements that are computed in whole blocks.
RG_INLINE int64_t whole_blocks(TileOp const& op, int64_t n) { return (op.padded ? n + kBlock - 1 : n) & ~(kBlock - 1); }

/// F: constructed from the TileOp, then called as `R f(A)`.
template <class R, class A, class F>
void unary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const step = op.repeated & 1 ? 0 : kBlock, blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock, a += step, out += kBlock)
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) out[j] = f(a[j]);
    for (int64_t j = 0; j < n - blocks; ++j) out[j] = f(a[j]);
}

template <class R, class A, class F>
void binary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<A const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const step_a = op.repeated & 1 ? 0 : kBlock, step_b = op.repeated & 2 ? 0 : kBlock;
    int64_t const blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock, a += step_a, b += step_b, out += kBlock)
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) out[j] = f(a[j], b[j]);
    for (int64_t j = 0; j < n - blocks; ++j) out[j] = f(a[j], b[j]);
}

template <class T, class A, class F>
void ternary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<T const*>(slots[op.in[1]]);
    auto const* c = reinterpret_cast<T const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<T*>(slots[op.out]);
    int64_t const step_a = op.repeated & 1 ? 0 : kBlock, step_b = op.repeated & 2 ? 0 : kBlock;
    int64_t const step_c = op.repeated & 4 ? 0 : kBlock, blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock, a += step_a, b += step_b, c += step_c, out += kBlock)
#pragma GCC ivdep
        for (int j = 0; j < kBlock; ++j) out[j] = f(a[j], b[j], c[j]);
    for (int64_t j = 0; j < n - blocks; ++j) out[j] = f(a[j], b[j], c[j]);
}

/// Operands may be used one element at a time where a block has no advantage or may throw.
template <class R, class A, class F>
void exact_binary_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    F f{op};
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto const* b = reinterpret_cast<A const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const mask_a = op.repeated & 1 ? kBlock - 1 : -1, mask_b = op.repeated & 2 ? kBlock - 1 : -1;
    for (int64_t i = 0; i < n; ++i) out[i] = f(a[i & mask_a], b[i & mask_b]);
}

template <class T>
inline constexpr bool kFloat = T(0.5) != T(0);
template <class T>
inline constexpr bool kSigned = T(-1) < T(0);

/// Unsigned type in which arithmetic of T wraps without being undefined (at least 32 bits, so that nothing is promoted
/// to int).
template <class T, int kBytes = sizeof(T)>
struct Wrap {
    using type = uint32_t;
};
template <class T>
struct Wrap<T, 8> {
    using type = uint64_t;
};
template <class T>
using WrapOf = typename Wrap<T>::type;

#define RG_WRAPPED(name, expression)                \
    struct name {                                   \
        explicit name(TileOp const&) {}             \
        template <class T>                          \
        RG_INLINE T operator()(T x, T y) const {    \
            if constexpr (kFloat<T>) {              \
                auto a = x, b = y;                  \
                return expression;                  \
            } else {                                \
                auto a = static_cast<WrapOf<T>>(x); \
                auto b = static_cast<WrapOf<T>>(y); \
                return static_cast<T>(expression);  \
            }                                       \
        }                                           \
    };
RG_WRAPPED(AddF, a + b)
RG_WRAPPED(SubF, a - b)
RG_WRAPPED(MulF, a* b)
#undef RG_WRAPPED

#define RG_COMPARE(name, expression)                   \
    struct name {                                      \
        explicit name(TileOp const&) {}                \
        template <class T>                             \
        RG_INLINE uint8_t operator()(T a, T b) const { \
            return static_cast<uint8_t>(expression);   \
        }                                              \
    };
RG_COMPARE(EqualF, a == b)
RG_COMPARE(LessF, a < b)
RG_COMPARE(LessEqualF, a <= b)
RG_COMPARE(GreaterF, a > b)
RG_COMPARE(GreaterEqualF, a >= b)
#undef RG_COMPARE

struct MinF {
    explicit MinF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a, T b) const {
        if constexpr (kFloat<T>)
            return a != a ? a : (a < b ? a : b);
        else
            return a < b ? a : b;
    }
};
struct MaxF {
    explicit MaxF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a, T b) const {
        if constexpr (kFloat<T>)
            return a != a ? a : (a > b ? a : b);
        else
            return a > b ? a : b;
    }
};
struct NegF {
    explicit NegF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a) const {
        if constexpr (kFloat<T>)
            return -a;
        else
            return static_cast<T>(WrapOf<T>{0} - static_cast<WrapOf<T>>(a));
    }
};
struct AbsF {
    explicit AbsF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a) const {
        if constexpr (sizeof(T) == 4 && kFloat<T>)
            return __builtin_fabsf(a);
        else if constexpr (kFloat<T>)
            return __builtin_fabs(a);
        else if constexpr (kSigned<T>)
            return a < 0 ? static_cast<T>(WrapOf<T>{0} - static_cast<WrapOf<T>>(a)) : a;
        else
            return a;
    }
};
struct ReluF {
    explicit ReluF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a) const {
        return a < T(0) ? T(0) : a;
    }
};
struct NotF {
    explicit NotF(TileOp const&) {}
    RG_INLINE uint8_t operator()(uint8_t a) const { return a == 0; }
};
struct AndF {
    explicit AndF(TileOp const&) {}
    RG_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { return (a != 0) & (b != 0); }
};
struct OrF {
    explicit OrF(TileOp const&) {}
    RG_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { return (a | b) != 0; }
};
struct XorF {
    explicit XorF(TileOp const&) {}
    RG_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { return (a != 0) != (b != 0); }
};
struct WhereF {
    explicit WhereF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(uint8_t a, T b, T c) const {
        return a ? b : c;
    }
};
struct ClipF {
    explicit ClipF(TileOp const& op) : min(op), max(op) {}
    MinF min;
    MaxF max;
    template <class T>
    RG_INLINE T operator()(T a, T b, T c) const {
        return min(max(a, b), c);
    }
};
struct CopyF {
    explicit CopyF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a) const {
        return a;
    }
};
struct DivF {
    explicit DivF(TileOp const&) {}
    template <class T>
    RG_INLINE T operator()(T a, T b) const {
        return a / b;
    }
};

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
