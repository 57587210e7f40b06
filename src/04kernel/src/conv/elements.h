#pragma once
#include "common/half.h"

#include <type_traits>

namespace refactor::kernel {

/// 16-bit floats as the references read and write them.
struct Float16 {
    uint16_t bits;
};
struct BFloat16 {
    uint16_t bits;
};
inline double widen(Float16 x) { return f32_from_f16(x.bits); }
inline double widen(BFloat16 x) { return f32_from_bf16(x.bits); }
template <class T>
    requires std::is_arithmetic_v<T>
inline double widen(T x) {
    return static_cast<double>(x);
}
template <class T>
inline T narrow(double x) {
    if constexpr (std::is_same_v<T, Float16>)
        return {f16_from_f32(static_cast<float>(x))};
    else if constexpr (std::is_same_v<T, BFloat16>)
        return {bf16_from_f32(static_cast<float>(x))};
    else
        return static_cast<T>(x);
}

/// Calls `f(T{})` with the element type of a float dtype; false if it is none that the references handle.
template <class F>
bool for_float(DataType dtype, F&& f) {
    switch (dtype) {
        case DataType::F32:
            f(float{});
            return true;
        case DataType::F64:
            f(double{});
            return true;
        case DataType::F16:
            f(Float16{});
            return true;
        case DataType::BF16:
            f(BFloat16{});
            return true;
        default:
            return false;
    }
}

}  // namespace refactor::kernel
