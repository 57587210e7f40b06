#include "common/half.h"

#include "minifloat.h"

#include <bit>

namespace refactor {
namespace {

using minifloat::Format;

constexpr uint8_t kE8m0Nan = 0xff, kE8m0Max = 0xfe;

Format format_of(DataType type) {
    switch (type) {
        case DataType::F8E4M3FN:
            return minifloat::kE4m3fn;
        case DataType::F8E4M3FNUZ:
            return minifloat::kE4m3fnuz;
        case DataType::F8E5M2:
            return minifloat::kE5m2;
        case DataType::F8E5M2FNUZ:
            return minifloat::kE5m2fnuz;
        default:
            return minifloat::kE2m1;
    }
}

uint8_t e8m0_from_f32(float value, bool saturate, ScaleRounding rounding) {
    auto bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffff;
    bool negative = bits >> 31 && magnitude;
    if (negative || magnitude > 0x7f800000) return kE8m0Nan;
    if (magnitude == 0x7f800000) return saturate ? kE8m0Max : kE8m0Nan;
    if (magnitude < 0x400000) {
        // Below 2^-127, the smallest scale (an f32 subnormal). Nearest reaches it from its half upwards.
        bool reached =
            rounding == ScaleRounding::Nearest ? magnitude > 0x200000 : rounding == ScaleRounding::Up && magnitude;
        return saturate || reached ? 0 : kE8m0Nan;
    }
    uint32_t exponent = magnitude >> 23, mantissa = magnitude & 0x7fffff;
    bool up = false;
    if (exponent == 0) {
        // [2^-127, 2^-126): the leading one is bit 22 of a subnormal.
        uint32_t rest = mantissa & 0x3fffff;
        up = rounding == ScaleRounding::Up ? rest != 0 : rounding == ScaleRounding::Nearest && rest >= 0x200000;
    } else {
        up = rounding == ScaleRounding::Up ? mantissa != 0 : rounding == ScaleRounding::Nearest && mantissa >= 0x400000;
    }
    exponent += up;
    if (exponent > kE8m0Max) return saturate ? kE8m0Max : kE8m0Nan;
    return static_cast<uint8_t>(exponent);
}

float f32_from_e8m0(uint8_t code) {
    if (code == kE8m0Nan) return std::bit_cast<float>(0x7fc00000u);
    return std::bit_cast<float>(code ? static_cast<uint32_t>(code) << 23 : 0x400000u);
}

}  // namespace

uint16_t f16_from_f32(float value) { return static_cast<uint16_t>(minifloat::encode(minifloat::kF16, value, false)); }

float f32_from_f16(uint16_t code) { return minifloat::decode(minifloat::kF16, code); }

uint16_t bf16_from_f32(float value) {
    auto bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float f32_from_bf16(uint16_t code) { return std::bit_cast<float>(static_cast<uint32_t>(code) << 16); }

uint8_t f8_from_f32(DataType type, float value, bool saturate, ScaleRounding rounding) {
    if (type == DataType::F8E8M0) return e8m0_from_f32(value, saturate, rounding);
    return static_cast<uint8_t>(minifloat::encode(format_of(type), value, saturate));
}

float f32_from_f8(DataType type, uint8_t code) {
    if (type == DataType::F8E8M0) return f32_from_e8m0(code);
    if (type == DataType::F4E2M1) code &= 0xf;
    return minifloat::decode(format_of(type), code);
}

}  // namespace refactor
