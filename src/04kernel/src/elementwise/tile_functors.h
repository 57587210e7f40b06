#pragma once
// Operators that need no mathematics, each a functor for the loops of `tile_loops.h`. Internal linkage.
#include "elementwise/tile_loops.h"

namespace refactor::kernel::elementwise {
namespace {

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

struct SquareF {
    explicit SquareF(TileOp const& op) : mul(op) {}
    MulF mul;
    template <class T>
    RG_INLINE T operator()(T x) const {
        return mul(x, x);
    }
};

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
        if constexpr (sizeof(T) == 8) {
            // GCC makes no vectors of AVX-512 of a choice of 8 bytes by one.
            uint8_t const one = a < 1 ? a : 1;
            return c ^ ((b ^ c) & (T{0} - T{one}));
        } else {
            return a ? b : c;
        }
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

}  // namespace
}  // namespace refactor::kernel::elementwise
