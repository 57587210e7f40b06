#pragma once
#include "common/half.h"
#include "kernel/kernel.h"

#include <limits>
#include <type_traits>

namespace refactor::kernel {

/// Bits of an f16 / bf16 element, so that templates can tell them from u16.
struct F16 {
    uint16_t bits;
};
struct BF16 {
    uint16_t bits;
};

/// The type a reference computes in: f64 for every float (so that its own rounding does not count), unsigned 64-bit for
/// integers that wrap.
template <class T>
using Wide =
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>, double>;

template <class T>
Wide<T> widen(T x) {
    if constexpr (std::is_same_v<T, F16>)
        return f32_from_f16(x.bits);
    else if constexpr (std::is_same_v<T, BF16>)
        return f32_from_bf16(x.bits);
    else
        return static_cast<Wide<T>>(x);
}
template <class T>
T narrow(Wide<T> x) {
    if constexpr (std::is_same_v<T, F16>)
        return {f16_from_f32(static_cast<float>(x))};
    else if constexpr (std::is_same_v<T, BF16>)
        return {bf16_from_f32(static_cast<float>(x))};
    else
        return static_cast<T>(x);
}
/// A real number as an element: integers are rounded towards zero, within their range.
template <class T>
T from_real(double x) {
    if constexpr (std::is_integral_v<T>) {
        using Limits = std::numeric_limits<T>;
        auto low = static_cast<double>(Limits::min()), high = static_cast<double>(Limits::max());
        return x >= high ? Limits::max() : x > low ? static_cast<T>(x) : Limits::min();
    } else {
        return narrow<T>(x);
    }
}
/// Sum and product that wrap for integers instead of being undefined.
template <class W>
W add(W a, W b) {
    if constexpr (std::is_integral_v<W>)
        return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
        return a + b;
}
template <class W>
W multiply(W a, W b) {
    if constexpr (std::is_integral_v<W>)
        return static_cast<W>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
        return a * b;
}

/// Calls `f(std::type_identity<T>{})` for a float type; false if `dtype` is none.
template <class F>
bool visit_float(DataType dtype, F&& f) {
    switch (dtype) {
        case DataType::F32:
            return f(std::type_identity<float>{}), true;
        case DataType::F64:
            return f(std::type_identity<double>{}), true;
        case DataType::F16:
            return f(std::type_identity<F16>{}), true;
        case DataType::BF16:
            return f(std::type_identity<BF16>{}), true;
        default:
            return false;
    }
}
/// The same for every float and integer type of whole bytes.
template <class F>
bool visit_numeric(DataType dtype, F&& f) {
    switch (dtype) {
        case DataType::I8:
            return f(std::type_identity<int8_t>{}), true;
        case DataType::I16:
            return f(std::type_identity<int16_t>{}), true;
        case DataType::I32:
            return f(std::type_identity<int32_t>{}), true;
        case DataType::I64:
            return f(std::type_identity<int64_t>{}), true;
        case DataType::U8:
            return f(std::type_identity<uint8_t>{}), true;
        case DataType::U16:
            return f(std::type_identity<uint16_t>{}), true;
        case DataType::U32:
            return f(std::type_identity<uint32_t>{}), true;
        case DataType::U64:
            return f(std::type_identity<uint64_t>{}), true;
        default:
            return visit_float(dtype, f);
    }
}
inline bool is_any_float(DataType dtype) {
    return visit_float(dtype, [](auto) {});
}
inline bool is_any_numeric(DataType dtype) {
    return visit_numeric(dtype, [](auto) {});
}

}  // namespace refactor::kernel
