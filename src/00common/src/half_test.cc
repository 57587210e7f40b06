#include "common/half.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace refactor {
namespace {

/// A format described independently of the implementation: the value of a code by the definition, in double arithmetic.
struct Reference {
    DataType type;
    int exponent_bits, mantissa_bits, bias;
    enum { Ieee, Fn, Fnuz, Finite } kind;

    int bits() const { return 1 + exponent_bits + mantissa_bits; }
    bool nan(uint32_t code) const {
        uint32_t magnitude = code & ((1u << (bits() - 1)) - 1), sign = code >> (bits() - 1);
        uint32_t exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
        if (kind == Ieee) return exponent == (1u << exponent_bits) - 1 && mantissa;
        if (kind == Fn) return magnitude == (1u << (bits() - 1)) - 1;
        return kind == Fnuz && sign && !magnitude;
    }
    /// The value; infinity has the value that the next code after the largest finite one would have, which is what
    /// rounding compares with.
    double value(uint32_t code) const {
        uint32_t magnitude = code & ((1u << (bits() - 1)) - 1);
        auto exponent = static_cast<int>(magnitude >> mantissa_bits);
        double mantissa = magnitude & ((1u << mantissa_bits) - 1);
        double unit = std::ldexp(1.0, -mantissa_bits);
        double size =
            exponent ? std::ldexp(1 + mantissa * unit, exponent - bias) : std::ldexp(mantissa * unit, 1 - bias);
        return code >> (bits() - 1) ? -size : size;
    }
    bool infinite(uint32_t magnitude) const {
        return kind == Ieee && magnitude == ((1u << exponent_bits) - 1) << mantissa_bits;
    }
    uint32_t largest() const {
        uint32_t code = (1u << (bits() - 1)) - 1;
        while (kind != Fnuz && (nan(code) || infinite(code))) --code;
        return code;
    }
};

constexpr Reference kReferences[] = {
    {DataType::F16, 5, 10, 15, Reference::Ieee},    {DataType::BF16, 8, 7, 127, Reference::Ieee},
    {DataType::F8E4M3FN, 4, 3, 7, Reference::Fn},   {DataType::F8E4M3FNUZ, 4, 3, 8, Reference::Fnuz},
    {DataType::F8E5M2, 5, 2, 15, Reference::Ieee},  {DataType::F8E5M2FNUZ, 5, 2, 16, Reference::Fnuz},
    {DataType::F4E2M1, 2, 1, 1, Reference::Finite},
};

float decode(DataType type, uint32_t code) {
    if (type == DataType::F16) return f32_from_f16(static_cast<uint16_t>(code));
    if (type == DataType::BF16) return f32_from_bf16(static_cast<uint16_t>(code));
    return f32_from_f8(type, static_cast<uint8_t>(code));
}

uint32_t encode(DataType type, float value, bool saturate) {
    if (type == DataType::F16) return f16_from_f32(value);
    if (type == DataType::BF16) return bf16_from_f32(value);
    return f8_from_f32(type, value, saturate);
}

TEST(Half, EveryCodeDecodesToItsDefinition) {
    for (auto const& reference : kReferences) {
        for (uint32_t code = 0; code < 1u << reference.bits(); ++code) {
            SCOPED_TRACE(std::string(name_of(reference.type)) + " code " + std::to_string(code));
            float value = decode(reference.type, code);
            uint32_t magnitude = code & ((1u << (reference.bits() - 1)) - 1);
            if (reference.nan(code)) {
                ASSERT_TRUE(std::isnan(value));
            } else if (reference.infinite(magnitude)) {
                ASSERT_TRUE(std::isinf(value));
                ASSERT_EQ(std::signbit(value), code != magnitude);
            } else {
                ASSERT_EQ(static_cast<double>(value), reference.value(code));
                ASSERT_EQ(std::signbit(value), code != magnitude);
            }
        }
    }
}

TEST(Half, EveryCodeSurvivesARoundTrip) {
    for (auto const& reference : kReferences) {
        for (uint32_t code = 0; code < 1u << reference.bits(); ++code) {
            uint32_t back = encode(reference.type, decode(reference.type, code), false);
            if (reference.nan(code))
                ASSERT_TRUE(reference.nan(back)) << name_of(reference.type) << ' ' << code;
            else
                ASSERT_EQ(back, code) << name_of(reference.type);
        }
    }
}

/// Around every midpoint of two neighbouring codes: below, at and above it. Doubles hold all of these exactly, floats
/// too.
TEST(Half, EveryRoundingDecisionIsToNearestEven) {
    for (auto const& reference : kReferences) {
        uint32_t largest = reference.largest();
        for (uint32_t code = 0; code <= largest; ++code) {
            double middle = (reference.value(code) + reference.value(code + 1)) / 2;
            // One step beyond the largest code has the value that it would have without a limit of the exponent.
            if (code == largest)
                middle = reference.value(code) + (reference.value(code) - reference.value(code - 1)) / 2;
            auto at = static_cast<float>(middle);
            if (static_cast<double>(at) != middle) {
                ASSERT_TRUE(std::isinf(at)) << name_of(reference.type);
                continue;
            }
            uint32_t even = code % 2 ? code + 1 : code;
            float below = std::nextafterf(at, 0.0f), above = std::nextafterf(at, INFINITY);
            struct {
                float value;
                uint32_t expected;
            } cases[] = {{below, code}, {at, even}, {above, code + 1}};
            for (auto [value, expected] : cases) {
                SCOPED_TRACE(std::string(name_of(reference.type)) + " value " + std::to_string(value));
                uint32_t clamped = std::min(expected, largest);
                bool sticky = reference.type == DataType::F16 || reference.type == DataType::BF16;
                uint32_t sign = 1u << (reference.bits() - 1);
                if (!sticky) {
                    ASSERT_EQ(encode(reference.type, value, true), clamped);
                    uint32_t minus = reference.kind == Reference::Fnuz && clamped == 0 ? 0 : sign | clamped;
                    ASSERT_EQ(encode(reference.type, -value, true), minus);
                }
                if (expected <= largest || reference.kind == Reference::Finite) {
                    ASSERT_EQ(encode(reference.type, value, false), clamped);
                } else if (reference.kind == Reference::Ieee) {
                    ASSERT_EQ(encode(reference.type, value, false), largest + 1);
                    ASSERT_EQ(encode(reference.type, -value, false), sign | (largest + 1));
                } else {
                    ASSERT_TRUE(reference.nan(encode(reference.type, value, false)));
                }
            }
        }
    }
}

TEST(Half, SpecialValues) {
    constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(f16_from_f32(-kInf), 0xfc00);
    EXPECT_EQ(bf16_from_f32(kInf), 0x7f80);
    EXPECT_EQ(f16_from_f32(65520.0f), 0x7c00);
    EXPECT_EQ(f16_from_f32(65519.996f), 0x7bff);
    EXPECT_EQ(f16_from_f32(-0.0f), 0x8000);
    // A signalling NaN becomes quiet and keeps its sign and upper payload bits.
    EXPECT_EQ(f16_from_f32(std::bit_cast<float>(0xff802000u)), 0xfe01);
    EXPECT_EQ(bf16_from_f32(std::bit_cast<float>(0x7f800001u)), 0x7fc0);
    EXPECT_EQ(f8_from_f32(DataType::F8E4M3FN, kInf, true), 0x7e);
    EXPECT_EQ(f8_from_f32(DataType::F8E4M3FN, -kInf, false), 0xff);
    EXPECT_EQ(f8_from_f32(DataType::F8E5M2, kInf, true), 0x7b);
    EXPECT_EQ(f8_from_f32(DataType::F8E5M2, kInf, false), 0x7c);
    EXPECT_EQ(f8_from_f32(DataType::F8E5M2FNUZ, -kInf, false), 0x80);
    EXPECT_EQ(f8_from_f32(DataType::F8E4M3FNUZ, -0.0f), 0);
    EXPECT_EQ(f8_from_f32(DataType::F8E4M3FNUZ, kNan), 0x80);
    EXPECT_EQ(f8_from_f32(DataType::F4E2M1, -kInf), 0xf);
    EXPECT_EQ(f8_from_f32(DataType::F4E2M1, kNan), 0x8);
}

TEST(Half, ScalesArePowersOfTwo) {
    auto scale = [](float x, bool saturate, ScaleRounding r) { return f8_from_f32(DataType::F8E8M0, x, saturate, r); };
    for (int code = 0; code < 255; ++code) {
        auto value = f32_from_f8(DataType::F8E8M0, static_cast<uint8_t>(code));
        ASSERT_EQ(static_cast<double>(value), std::ldexp(1.0, code - 127));
        for (auto r : {ScaleRounding::Up, ScaleRounding::Down, ScaleRounding::Nearest}) {
            ASSERT_EQ(scale(value, false, r), code);
            float more = std::nextafterf(value, INFINITY), middle = value * 1.5f;
            ASSERT_EQ(scale(more, true, r), code + (r == ScaleRounding::Up && code < 254)) << code;
            ASSERT_EQ(scale(middle, true, r), code + (r != ScaleRounding::Down && code < 254)) << code;
            ASSERT_EQ(scale(std::nextafterf(middle, 0.0f), true, r), code + (r == ScaleRounding::Up && code < 254));
        }
    }
    EXPECT_TRUE(std::isnan(f32_from_f8(DataType::F8E8M0, 255)));
    EXPECT_EQ(scale(0.0f, true, ScaleRounding::Up), 0);
    EXPECT_EQ(scale(0.0f, false, ScaleRounding::Nearest), 255);
    EXPECT_EQ(scale(INFINITY, true, ScaleRounding::Up), 254);
    EXPECT_EQ(scale(INFINITY, false, ScaleRounding::Nearest), 255);
    EXPECT_EQ(scale(std::numeric_limits<float>::max(), false, ScaleRounding::Up), 255);
    EXPECT_EQ(scale(-1.0f, true, ScaleRounding::Up), 255);
}

}  // namespace
}  // namespace refactor
