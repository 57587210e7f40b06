#pragma once
#include <bit>
#include <cstdint>

namespace refactor::minifloat {

/// A binary floating-point format of at most 16 bits, in the terms of IEEE 754-2019: `bias`, width of exponent and
/// mantissa.
struct Format {
    int exponent_bits, mantissa_bits, bias;
    uint32_t max_code;  ///< the largest finite value, without its sign
    uint32_t inf_code;  ///< infinity, or 0 if the format has none
    uint32_t nan_code;  ///< the quiet NaN, or 0 if the format has none
    bool fnuz;          ///< one zero, one NaN (the code of minus zero), no infinity

    constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
};

inline constexpr Format kF16{5, 10, 15, 0x7bff, 0x7c00, 0x7e00, false};
inline constexpr Format kBf16{8, 7, 127, 0x7f7f, 0x7f80, 0x7fc0, false};
inline constexpr Format kE4m3fn{4, 3, 7, 0x7e, 0, 0x7f, false};
inline constexpr Format kE4m3fnuz{4, 3, 8, 0x7f, 0, 0x80, true};
inline constexpr Format kE5m2{5, 2, 15, 0x7b, 0x7c, 0x7e, false};
inline constexpr Format kE5m2fnuz{5, 2, 16, 0x7f, 0, 0x80, true};
inline constexpr Format kE2m1{2, 1, 1, 0x7, 0, 0, false};

/// Magnitude rounded to nearest, ties to even, as a code without sign; codes above `max_code` mean overflow. Integer
/// arithmetic only, so that the flush-to-zero mode of the thread does not matter.
constexpr uint32_t round_magnitude(Format f, uint32_t bits) {
    auto biased = static_cast<int>(bits >> 23);
    uint32_t significand = bits & 0x7fffff;
    if (biased)
        significand |= 0x800000;
    else
        biased = 1;
    int exponent = biased - 127, smallest = 1 - f.bias;
    int shift = 23 - f.mantissa_bits + (exponent < smallest ? smallest - exponent : 0);
    if (shift > 25) return 0;
    uint32_t odd = (significand >> shift) & 1;
    uint32_t rounded = (significand + (1u << (shift - 1)) - 1 + odd) >> shift;
    return exponent < smallest ? rounded : (static_cast<uint32_t>(exponent - smallest) << f.mantissa_bits) + rounded;
}

/// Code of `value`. `saturate`: what is out of range (infinity too) becomes the largest finite value.
constexpr uint32_t encode(Format f, float value, bool saturate) {
    auto bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
    uint32_t sign = bits >> 31 ? f.sign_bit() : 0;
    if (magnitude > 0x7f800000) {
        if (f.fnuz) return f.nan_code;
        // The payload's upper bits stay where infinity exists; without a NaN the answer is minus zero (as in
        // ml_dtypes).
        if (f.inf_code) return sign | f.nan_code | ((magnitude & 0x7fffff) >> (23 - f.mantissa_bits));
        return f.nan_code ? sign | f.nan_code : f.sign_bit();
    }
    uint32_t code = magnitude == 0x7f800000 ? f.max_code + 1 : round_magnitude(f, magnitude);
    if (code > f.max_code) {
        if (saturate || !f.nan_code)
            code = f.max_code;
        else if (f.inf_code)
            code = f.inf_code;
        else if (f.fnuz)
            return f.nan_code;
        else
            code = f.nan_code;
    }
    return f.fnuz && code == 0 ? 0 : sign | code;
}

constexpr float decode(Format f, uint32_t code) {
    uint32_t sign = code & f.sign_bit() ? 0x80000000u : 0, magnitude = code & (f.sign_bit() - 1);
    if (f.fnuz && code == f.nan_code) return std::bit_cast<float>(0x7fc00000u);
    if (f.inf_code && magnitude >= f.inf_code) {
        uint32_t payload = (magnitude - f.inf_code) << (23 - f.mantissa_bits);
        return std::bit_cast<float>(sign | 0x7f800000u | payload | (payload ? 0x400000u : 0));
    }
    if (!f.fnuz && !f.inf_code && f.nan_code && magnitude == f.nan_code)
        return std::bit_cast<float>(sign | 0x7fc00000u);
    uint32_t mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
    int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
    if (exponent == 0) {
        if (mantissa == 0) return std::bit_cast<float>(sign);
        // Subnormal here, normal in f32: the leading one moves to bit `mantissa_bits`.
        int shift = std::countl_zero(mantissa) - (31 - f.mantissa_bits);
        mantissa = (mantissa << shift) & ((1u << f.mantissa_bits) - 1);
        exponent = 1 - shift;
    }
    auto biased = static_cast<uint32_t>(exponent - f.bias + 127);
    return std::bit_cast<float>(sign | biased << 23 | mantissa << (23 - f.mantissa_bits));
}

}  // namespace refactor::minifloat
