#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace refactor::cuda_emulator {

// Elements of f32, f16, f64, bf16 and, to read, f8e4m3fn by the number of their `refactor::DataType`.

inline constexpr int32_t kF8 = 17;

/// f8e4m3fn: 4 bits of exponent, biased by 7, and 3 of mantissa; all ones are NaN. arXiv 2209.05433.
inline double f8_value(uint8_t code) {
    int exponent = code >> 3 & 15, mantissa = code & 7;
    double value = exponent ? std::ldexp(8 + mantissa, exponent - 10) : std::ldexp(mantissa, -9);
    if ((code & 127) == 127) value = NAN;
    return code & 128 ? -value : value;
}

inline double load(int32_t dtype, void const* data, int64_t i) {
    auto const* bytes = static_cast<std::byte const*>(data);
    auto get = [&]<class T>(T value) {
        std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
        return value;
    };
    if (dtype == 1) return static_cast<double>(get(float{}));
    if (dtype == 11) return get(double{});
    if (dtype == 10) return static_cast<double>(static_cast<float>(get(_Float16{})));
    if (dtype == kF8) return f8_value(get(uint8_t{}));
    auto bits = static_cast<uint32_t>(get(uint16_t{})) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
}

inline void store(int32_t dtype, void* data, int64_t i, double number) {
    auto* bytes = static_cast<std::byte*>(data);
    auto put = [&]<class T>(T value) { std::memcpy(bytes + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T)); };
    auto single = static_cast<float>(number);
    if (dtype == 1) return put(single);
    if (dtype == 11) return put(number);
    if (dtype == 10) return put(static_cast<_Float16>(single));
    uint32_t word;
    std::memcpy(&word, &single, sizeof word);
    if (single != single)
        word |= 0x400000;
    else
        word += 0x7fff + (word >> 16 & 1);
    put(static_cast<uint16_t>(word >> 16));
}

/// Gelu by its tanh approximation, Hendrycks and Gimpel, arXiv:1606.08415.
inline double activated(int32_t activation, double x) {
    if (activation == 1) return x > 0 || x != x ? x : 0;
    if (activation == 2) return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return x;
}

}  // namespace refactor::cuda_emulator
