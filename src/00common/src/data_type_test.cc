#include "common/data_type.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace refactor {
namespace {

TEST(DataType, OnnxCodes) {
    for (int code = 1; code < kDataTypeCount; ++code) EXPECT_EQ(data_type_from_onnx(code), static_cast<DataType>(code));
    for (int64_t code : {int64_t(0), int64_t(-1), int64_t(27), INT64_MAX, INT64_MIN})
        EXPECT_FALSE(data_type_from_onnx(code)) << code;
}

TEST(DataType, NamesAreDistinct) {
    std::set<std::string_view> names;
    for (int code = 0; code < kDataTypeCount; ++code) names.insert(name_of(static_cast<DataType>(code)));
    EXPECT_EQ(names.size(), size_t(kDataTypeCount));
    EXPECT_EQ(name_of(DataType::F8E4M3FN), "f8e4m3fn");
    EXPECT_EQ(name_of(static_cast<DataType>(200)), "undefined");
}

TEST(DataType, BitsAgreeWithNames) {
    for (int code = 1; code < kDataTypeCount; ++code) {
        auto type = static_cast<DataType>(code);
        std::string name(name_of(type));
        if (type == DataType::String || type == DataType::Bool) continue;
        EXPECT_EQ(bits_of(type), std::atoi(name.c_str() + name.find_first_of("0123456789"))) << name;
    }
    EXPECT_EQ(bits_of(DataType::Bool), 8);
    EXPECT_EQ(bits_of(DataType::String), 0);
}

TEST(DataType, StorageRoundsUpToBytes) {
    EXPECT_EQ(storage_bytes(DataType::F32, 3), 12u);
    EXPECT_EQ(storage_bytes(DataType::I4, 0), 0u);
    EXPECT_EQ(storage_bytes(DataType::I4, 3), 2u);
    EXPECT_EQ(storage_bytes(DataType::U2, 5), 2u);
    EXPECT_EQ(storage_bytes(DataType::U2, 4), 1u);
    EXPECT_EQ(storage_bytes(DataType::Complex128, 2), 32u);
    EXPECT_EQ(storage_bytes(DataType::F64, int64_t(1) << 33), size_t(1) << 36);
}

TEST(DataType, Kinds) {
    EXPECT_TRUE(is_float(DataType::BF16) && is_float(DataType::F4E2M1) && is_float(DataType::F8E8M0));
    EXPECT_FALSE(is_float(DataType::Complex64) || is_float(DataType::I32) || is_float(DataType::Undefined));
    EXPECT_TRUE(is_integer(DataType::U2) && is_integer(DataType::I64));
    EXPECT_FALSE(is_integer(DataType::Bool) || is_integer(DataType::F16));
    EXPECT_TRUE(is_signed(DataType::I2) && is_signed(DataType::F64));
    EXPECT_FALSE(is_signed(DataType::U64) || is_signed(DataType::Bool) || is_signed(DataType::F8E8M0));
}

}  // namespace
}  // namespace refactor
