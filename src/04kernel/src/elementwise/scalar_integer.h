#pragma once
// Functors of integer division and powers for the portable tile functions. Internal linkage.
#include "common/error.h"
#include "elementwise/tile_functors.h"

#include <limits>
#include <type_traits>

namespace refactor::kernel::elementwise {
namespace {

template <class T>
void check_divisor(T a, T b) {
    if (b == 0) throw InvalidInput("integer division of " + std::to_string(a) + " by zero");
}
/// Whether the processor would trap unless b is 0.
template <class T>
bool overflows(T a, T b) {
    if constexpr (std::is_signed_v<T> && sizeof(T) >= 4)
        return b == -1 && a == std::numeric_limits<T>::min();
    else
        return false;
}
/// With the sign of a.
template <class T>
T remainder(T a, T b) {
    check_divisor(a, b);
    return overflows(a, b) ? T(0) : static_cast<T>(a % b);
}
struct IntegerDivF {
    explicit IntegerDivF(TileOp const&) {}
    template <class T>
    T operator()(T a, T b) const {
        check_divisor(a, b);
        if (overflows(a, b)) throw InvalidInput("integer division of " + std::to_string(a) + " by -1 overflows");
        return static_cast<T>(a / b);
    }
};
struct IntegerFmodF {
    explicit IntegerFmodF(TileOp const&) {}
    template <class T>
    T operator()(T a, T b) const {
        return remainder(a, b);
    }
};
struct IntegerModF {
    explicit IntegerModF(TileOp const&) {}
    template <class T>
    T operator()(T a, T b) const {
        auto r = remainder(a, b);
        return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    }
};
/// Wraps; a negative power is 1 / (a^|b|) rounded toward zero, and zero to a negative power is zero.
struct IntegerPowF {
    explicit IntegerPowF(TileOp const&) {}
    template <class T>
    T operator()(T a, T b) const {
        if constexpr (std::is_signed_v<T>)
            if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 ? T(-1) : T(1)) : T(0);
        auto base = static_cast<WrapOf<T>>(a), result = WrapOf<T>{1};
        for (auto n = static_cast<std::make_unsigned_t<T>>(b); n; n >>= 1, base *= base)
            if (n & 1) result *= base;
        return static_cast<T>(result);
    }
};

}  // namespace
}  // namespace refactor::kernel::elementwise
