#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace refactor {

/// Element types; the numbers are those of ONNX `TensorProto.DataType`, so that importers cast.
enum class DataType : uint8_t {
    Undefined = 0,
    F32 = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    String = 8,
    Bool = 9,
    F16 = 10,
    F64 = 11,
    U32 = 12,
    U64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    BF16 = 16,
    F8E4M3FN = 17,
    F8E4M3FNUZ = 18,
    F8E5M2 = 19,
    F8E5M2FNUZ = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
};
inline constexpr int kDataTypeCount = 27;

/// The type of an ONNX code, nothing if the code is not one of `DataType` (0 included).
std::optional<DataType> data_type_from_onnx(int64_t code);
/// Short lower-case name: "f32", "i64", "bool", "f8e4m3fn", …
std::string_view name_of(DataType);

/// Bits of one element: 4 for i4, 8 for bool; 0 for strings, which have no fixed size.
int bits_of(DataType);
/// Bytes of `count` elements; sub-byte types are packed, low bits first, and rounded up to a whole byte.
size_t storage_bytes(DataType, int64_t count);

bool is_float(DataType);    ///< f64 … f4, bf16 included; not complex
bool is_integer(DataType);  ///< signed and unsigned integers of any width; not bool
bool is_signed(DataType);   ///< signed integers and floats

}  // namespace refactor
