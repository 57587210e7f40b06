#include "common/half.h"
#include "common/thread_pool.h"
#include "random_test.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace refactor {
namespace {

constexpr DataType kFloats16[] = {DataType::F16, DataType::BF16};

uint16_t scalar_encode(DataType type, float x) { return type == DataType::F16 ? f16_from_f32(x) : bf16_from_f32(x); }
float scalar_decode(DataType type, uint16_t x) { return type == DataType::F16 ? f32_from_f16(x) : f32_from_bf16(x); }

TEST(Convert, VectorDecodingOfEveryHalfMatchesScalar) {
    std::vector<uint16_t> codes(65536);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
    for (auto type : kFloats16) {
        std::vector<float> values(codes.size());
        ASSERT_TRUE(convert(type, codes.data(), DataType::F32, values.data(), 65536));
        for (size_t i = 0; i < codes.size(); ++i)
            ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(scalar_decode(type, codes[i]))) << i;
    }
}

TEST(Convert, VectorEncodingMatchesScalar) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937_64 random(seed);
    // Not a multiple of the vector or of the block; every bit pattern is possible.
    std::vector<float> values(1'000'003);
    for (auto& x : values) x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    for (auto type : kFloats16) {
        for (bool flush : {false, true}) {
            std::vector<uint16_t> codes(values.size());
            {
                auto scope = flush ? std::make_unique<FlushDenormals>() : nullptr;
                ASSERT_TRUE(
                    convert(DataType::F32, values.data(), type, codes.data(), static_cast<int64_t>(values.size())));
            }
            for (size_t i = 0; i < values.size(); ++i)
                ASSERT_EQ(codes[i], scalar_encode(type, values[i])) << std::bit_cast<uint32_t>(values[i]);
        }
    }
}

/// Values between the midpoints that f32 can hold: rounding to f32 first would go the wrong way.
TEST(Convert, WideTypesRoundOnce) {
    for (uint32_t code = 0; code < 0x7bff; ++code) {
        double low = f32_from_f16(static_cast<uint16_t>(code)), high = f32_from_f16(static_cast<uint16_t>(code + 1));
        double middle = (low + high) / 2, values[] = {std::nextafter(middle, 0.0), middle, std::nextafter(middle, 1e6)};
        uint16_t result[3];
        ASSERT_TRUE(convert(DataType::F64, values, DataType::F16, result, 3));
        ASSERT_EQ(result[0], code);
        ASSERT_EQ(result[1], code % 2 ? code + 1 : code);
        ASSERT_EQ(result[2], code + 1);
    }
    // 2^40 + 2^32 lies between two bf16 values; the last bit decides.
    int64_t middle = (int64_t(1) << 40) + (int64_t(1) << 32),
            integers[] = {middle - 1, middle, middle + 1, -middle - 1, INT64_MIN};
    uint16_t result[5];
    ASSERT_TRUE(convert(DataType::I64, integers, DataType::BF16, result, 5));
    EXPECT_EQ(f32_from_bf16(result[0]), std::ldexp(1.0f, 40));
    EXPECT_EQ(f32_from_bf16(result[1]), std::ldexp(1.0f, 40));
    EXPECT_EQ(f32_from_bf16(result[2]), std::ldexp(129.0f, 33));
    EXPECT_EQ(f32_from_bf16(result[3]), -std::ldexp(129.0f, 33));
    EXPECT_EQ(f32_from_bf16(result[4]), -std::ldexp(1.0f, 63));
    double special[] = {INFINITY, -INFINITY, NAN, 1e300, -1e-300, 5e-324};
    uint16_t halves[6];
    ASSERT_TRUE(convert(DataType::F64, special, DataType::F16, halves, 6));
    EXPECT_EQ(halves[0], 0x7c00);
    EXPECT_EQ(halves[1], 0xfc00);
    EXPECT_EQ(halves[2] & 0x7e00, 0x7e00);
    EXPECT_EQ(halves[3], 0x7c00);
    EXPECT_EQ(halves[4], 0x8000);
    EXPECT_EQ(halves[5], 0);
}

/// Every pair of convertible types on integers that all of them hold (0 to 1): the value must survive. Odd counts cross
/// a block.
TEST(Convert, EveryPairKeepsSmallIntegers) {
    auto seed = test_seed();
    SCOPED_TRACE(seed_text(seed));
    std::mt19937_64 random(seed);
    for (int from = 1; from < kDataTypeCount; ++from) {
        for (int to = 1; to < kDataTypeCount; ++to) {
            auto source = static_cast<DataType>(from), target = static_cast<DataType>(to);
            auto excluded = [](DataType t) {
                return t == DataType::String || t == DataType::Complex64 || t == DataType::Complex128;
            };
            int64_t count = 1 + static_cast<int64_t>(random() % 1100);
            auto n = static_cast<size_t>(count);
            std::vector<uint8_t> bits(n), a(n * 16), b(n * 16), back(n);
            // E8M0 has no zero.
            bool ones = source == DataType::F8E8M0 || target == DataType::F8E8M0;
            for (auto& bit : bits) bit = ones || random() % 2;
            SCOPED_TRACE(std::string(name_of(source)) + " to " + std::string(name_of(target)));
            if (excluded(source) || excluded(target)) {
                ASSERT_FALSE(convert(source, a.data(), target, b.data(), count));
                continue;
            }
            ASSERT_TRUE(convert(DataType::U8, bits.data(), source, a.data(), count));
            size_t size = storage_bytes(target, count);
            std::fill(b.begin(), b.end(), uint8_t(0xa5));
            ASSERT_TRUE(convert(source, a.data(), target, b.data(), count));
            for (size_t i = size; i < b.size(); ++i) ASSERT_EQ(b[i], 0xa5) << "wrote past the end";
            ASSERT_TRUE(convert(target, b.data(), DataType::U8, back.data(), count));
            ASSERT_EQ(back, bits);
        }
    }
}

TEST(Convert, PacksLowBitsFirst) {
    int8_t values[] = {1, -2, 7, -8, 5};
    uint8_t packed[3];
    ASSERT_TRUE(convert(DataType::I8, values, DataType::I4, packed, 5));
    EXPECT_EQ(packed[0], 0xe1);
    EXPECT_EQ(packed[1], 0x87);
    EXPECT_EQ(packed[2], 0x05);
    int32_t back[5];
    ASSERT_TRUE(convert(DataType::I4, packed, DataType::I32, back, 5));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(back[i], values[i]);
    int8_t small[] = {1, -2, 0, -1, 1};
    ASSERT_TRUE(convert(DataType::I8, small, DataType::I2, packed, 5));
    EXPECT_EQ(packed[0], 0b11001001);
    EXPECT_EQ(packed[1], 0b01);
    ASSERT_TRUE(convert(DataType::I2, packed, DataType::I32, back, 5));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(back[i], small[i]);
    float floats[] = {-6.0f, 0.5f, 1.5f};
    ASSERT_TRUE(convert(DataType::F32, floats, DataType::F4E2M1, packed, 3));
    EXPECT_EQ(packed[0], 0x1f);
    EXPECT_EQ(packed[1], 0x03);
}

TEST(Convert, IntegersWrapAndFloatsTruncate) {
    int16_t wide[] = {200, -129, 300, -1};
    int8_t narrow[4];
    uint64_t huge[4];
    ASSERT_TRUE(convert(DataType::I16, wide, DataType::I8, narrow, 4));
    EXPECT_EQ(narrow[0], -56);
    EXPECT_EQ(narrow[1], 127);
    EXPECT_EQ(narrow[2], 44);
    ASSERT_TRUE(convert(DataType::I16, wide, DataType::U64, huge, 4));
    EXPECT_EQ(huge[3], UINT64_MAX);
    float floats[] = {-1.9f, 2.9f, NAN, 3e9f, -3e9f, 1e30f};
    int32_t i32[6];
    int64_t i64[6];
    uint32_t u32[6];
    ASSERT_TRUE(convert(DataType::F32, floats, DataType::I32, i32, 6));
    ASSERT_TRUE(convert(DataType::F32, floats, DataType::I64, i64, 6));
    ASSERT_TRUE(convert(DataType::F32, floats, DataType::U32, u32, 6));
    int32_t expected32[] = {-1, 2, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN};
    int64_t expected64[] = {-1, 2, INT64_MIN, 3000000000, -3000000000, INT64_MIN};
    for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(i32[i], expected32[i]) << i;
        EXPECT_EQ(i64[i], expected64[i]) << i;
    }
    EXPECT_EQ(u32[3], 3000000000u);
    double doubles[] = {1.8e19, 9.3e18, -2147483648.9, -2147483649.0};
    uint64_t u64[4];
    ASSERT_TRUE(convert(DataType::F64, doubles, DataType::U64, u64, 4));
    EXPECT_EQ(u64[0], 18000000000000000000ull);
    EXPECT_EQ(u64[1], 9300000000000000000ull);
    ASSERT_TRUE(convert(DataType::F64, doubles, DataType::I32, i32, 4));
    EXPECT_EQ(i32[2], INT32_MIN);
    EXPECT_EQ(i32[3], INT32_MIN);
}

TEST(Convert, BoolIsWhetherNotZero) {
    float floats[] = {0.0f, -0.0f, NAN, 1e-45f, -0.5f};
    uint8_t result[5];
    FlushDenormals flush;
    ASSERT_TRUE(convert(DataType::F32, floats, DataType::Bool, result, 5));
    uint8_t expected[] = {0, 0, 1, 1, 1};
    EXPECT_EQ(std::memcmp(result, expected, 5), 0);
    uint8_t odd[] = {0, 1, 255};
    int64_t numbers[3];
    ASSERT_TRUE(convert(DataType::Bool, odd, DataType::I64, numbers, 3));
    EXPECT_EQ(numbers[2], 1);
}

TEST(Convert, NothingIsWrittenForNoElements) {
    uint8_t byte = 7;
    EXPECT_TRUE(convert(DataType::F32, nullptr, DataType::I4, &byte, 0));
    EXPECT_EQ(byte, 7);
}

}  // namespace
}  // namespace refactor
