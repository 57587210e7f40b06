#include "common/data_type.h"

namespace refactor {
namespace {

enum class Kind : uint8_t { None, Float, Unsigned, Signed, Bool, Complex };

struct Traits {
    char const* name;
    uint8_t bits;
    Kind kind;
};

// Indexed by the number of the type.
constexpr Traits kTraits[kDataTypeCount] = {
    {"undefined", 0, Kind::None},     {"f32", 32, Kind::Float},
    {"u8", 8, Kind::Unsigned},        {"i8", 8, Kind::Signed},
    {"u16", 16, Kind::Unsigned},      {"i16", 16, Kind::Signed},
    {"i32", 32, Kind::Signed},        {"i64", 64, Kind::Signed},
    {"string", 0, Kind::None},        {"bool", 8, Kind::Bool},
    {"f16", 16, Kind::Float},         {"f64", 64, Kind::Float},
    {"u32", 32, Kind::Unsigned},      {"u64", 64, Kind::Unsigned},
    {"complex64", 64, Kind::Complex}, {"complex128", 128, Kind::Complex},
    {"bf16", 16, Kind::Float},        {"f8e4m3fn", 8, Kind::Float},
    {"f8e4m3fnuz", 8, Kind::Float},   {"f8e5m2", 8, Kind::Float},
    {"f8e5m2fnuz", 8, Kind::Float},   {"u4", 4, Kind::Unsigned},
    {"i4", 4, Kind::Signed},          {"f4e2m1", 4, Kind::Float},
    {"f8e8m0", 8, Kind::Float},       {"u2", 2, Kind::Unsigned},
    {"i2", 2, Kind::Signed},
};

Traits const& traits(DataType type) {
    auto code = static_cast<int>(type);
    return kTraits[code < kDataTypeCount ? code : 0];
}

}  // namespace

std::optional<DataType> data_type_from_onnx(int64_t code) {
    if (code <= 0 || code >= kDataTypeCount) return std::nullopt;
    return static_cast<DataType>(code);
}

std::string_view name_of(DataType type) { return traits(type).name; }

int bits_of(DataType type) { return traits(type).bits; }

size_t storage_bytes(DataType type, int64_t count) {
    auto bits = static_cast<size_t>(bits_of(type));
    auto n = static_cast<size_t>(count);
    return bits >= 8 ? n * (bits / 8) : (n * bits + 7) / 8;
}

bool is_float(DataType type) { return traits(type).kind == Kind::Float; }

bool is_integer(DataType type) { return traits(type).kind == Kind::Unsigned || traits(type).kind == Kind::Signed; }

bool is_signed(DataType type) {
    return traits(type).kind == Kind::Signed || (is_float(type) && type != DataType::F8E8M0);
}

}  // namespace refactor
