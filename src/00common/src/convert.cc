#include "common/cpu_features.h"
#include "common/half.h"

#if RG_X86
#include "half_avx2.h"
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace refactor {
namespace {

/// An f32 rounded to odd: rounding it once more to a narrower float gives what one rounding of the original would.
struct OddF32 {
    float value;
};
/// A byte that is 0 or 1.
struct Truth {
    uint8_t value;
};

// Elements of a block that passes through buffers: a multiple of 8, so that packed types stay on whole bytes, and small
// enough for L1.
constexpr int64_t kBlock = 512;

OddF32 odd_from(double value) {
    auto bits = std::bit_cast<uint64_t>(value);
    auto sign = static_cast<uint32_t>(bits >> 63) << 31;
    uint64_t mantissa = bits & 0xfffffffffffffull;
    int exponent = static_cast<int>(bits >> 52 & 0x7ff) - 1023;
    if (exponent == 1024) {
        uint32_t payload = static_cast<uint32_t>(mantissa >> 29) | (mantissa ? 0x400000u : 0);
        return {std::bit_cast<float>(sign | 0x7f800000u | payload)};
    }
    if (exponent > 127) return {std::bit_cast<float>(sign | 0x7f7fffffu)};
    if (exponent == -1023) return {std::bit_cast<float>(sign | (mantissa ? 1u : 0))};
    mantissa |= 1ull << 52;
    int shift = 29 + (exponent < -126 ? -126 - exponent : 0);
    if (shift > 60) shift = 60;
    uint64_t kept = mantissa >> shift;
    if (kept << shift != mantissa) kept |= 1;
    uint64_t code = exponent < -126 ? kept : (static_cast<uint64_t>(exponent + 126) << 23) + kept;
    return {std::bit_cast<float>(sign | static_cast<uint32_t>(code))};
}

template <class I>
OddF32 odd_from_integer(I value) {
    bool negative = value < 0;
    auto magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    int shift = 40 - std::countl_zero(magnitude | 1);
    if (shift > 0) {
        uint64_t kept = magnitude >> shift;
        if (kept << shift != magnitude) kept |= 1;
        magnitude = kept << shift;
    }
    auto result = static_cast<float>(magnitude);
    return {negative ? -result : result};
}

template <class I, class F>
I integer_from(F value) {
    if constexpr (sizeof(I) < 4 || std::is_same_v<I, int32_t>) {
        bool fits = value > F(-2147483904.0) && value < F(2147483648.0) && static_cast<int64_t>(value) >= INT32_MIN;
        return static_cast<I>(fits ? static_cast<int32_t>(value) : INT32_MIN);
    } else {
        constexpr F kLimit = F(9223372036854775808.0);
        if (std::is_same_v<I, uint64_t> && value >= kLimit)
            return value < 2 * kLimit ? static_cast<I>(static_cast<uint64_t>(value)) : I(0);
        return static_cast<I>(value >= -kLimit && value < kLimit ? static_cast<int64_t>(value) : INT64_MIN);
    }
}

template <class From>
bool is_true(From value) {
    // By bits: a comparison would take a subnormal for zero while denormals are flushed.
    if constexpr (std::is_same_v<From, float>)
        return std::bit_cast<uint32_t>(value) << 1 != 0;
    else if constexpr (std::is_same_v<From, double>)
        return std::bit_cast<uint64_t>(value) << 1 != 0;
    else
        return value != 0;
}

template <class To, class From>
To cast(From value) {
    if constexpr (std::is_same_v<From, Truth>) {
        return cast<To>(static_cast<uint8_t>(value.value != 0));
    } else if constexpr (std::is_same_v<To, Truth>) {
        return {is_true(value)};
    } else if constexpr (std::is_same_v<To, OddF32>) {
        if constexpr (std::is_same_v<From, double>)
            return odd_from(value);
        else if constexpr (std::is_integral_v<From> && sizeof(From) >= 4)
            return odd_from_integer(value);
        else
            return {static_cast<float>(value)};
    } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
        return integer_from<To>(value);
    } else {
        return static_cast<To>(value);
    }
}

template <class From, class To>
void cast_all(From const* source, To* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) target[i] = cast<To>(source[i]);
}

template <class T>
struct Tag {
    using type = T;
};

/// Calls `use(Tag<T>)` for the C++ type that carries `type` in memory or in a block buffer.
template <class Use>
bool with_native(DataType type, Use&& use) {
    switch (type) {
        case DataType::F32:
            use(Tag<float>{});
            return true;
        case DataType::F64:
            use(Tag<double>{});
            return true;
        case DataType::U8:
            use(Tag<uint8_t>{});
            return true;
        case DataType::I8:
            use(Tag<int8_t>{});
            return true;
        case DataType::U16:
            use(Tag<uint16_t>{});
            return true;
        case DataType::I16:
            use(Tag<int16_t>{});
            return true;
        case DataType::U32:
            use(Tag<uint32_t>{});
            return true;
        case DataType::I32:
            use(Tag<int32_t>{});
            return true;
        case DataType::U64:
            use(Tag<uint64_t>{});
            return true;
        case DataType::I64:
            use(Tag<int64_t>{});
            return true;
        case DataType::Bool:
            use(Tag<Truth>{});
            return true;
        default:
            return false;
    }
}

/// The type whose C++ type carries `type` between decoding and encoding; itself if C++ has it, `Undefined` if it is not
/// convertible.
DataType carrier_of(DataType type) {
    switch (type) {
        case DataType::U4:
        case DataType::U2:
            return DataType::U8;
        case DataType::I4:
        case DataType::I2:
            return DataType::I8;
        case DataType::Undefined:
        case DataType::String:
        case DataType::Complex64:
        case DataType::Complex128:
            return DataType::Undefined;
        default:
            return is_float(type) && bits_of(type) <= 16 ? DataType::F32 : type;
    }
}

#if RG_X86
half_avx2::Functions const* fast_functions() {
    static bool const available = cpu_features().isa >= Isa::Avx2;
    static half_avx2::Functions const functions = half_avx2::functions();
    return available ? &functions : nullptr;
}
#endif

void decode_half(DataType type, uint16_t const* source, float* target, int64_t count) {
    bool f16 = type == DataType::F16;
#if RG_X86
    if (auto const* fast = fast_functions())
        return (f16 ? fast->f32_from_f16 : fast->f32_from_bf16)(source, target, static_cast<size_t>(count));
#endif
    for (int64_t i = 0; i < count; ++i) target[i] = f16 ? f32_from_f16(source[i]) : f32_from_bf16(source[i]);
}

void encode_half(DataType type, float const* source, uint16_t* target, int64_t count) {
    bool f16 = type == DataType::F16;
#if RG_X86
    if (auto const* fast = fast_functions())
        return (f16 ? fast->f16_from_f32 : fast->bf16_from_f32)(source, target, static_cast<size_t>(count));
#endif
    for (int64_t i = 0; i < count; ++i) target[i] = f16 ? f16_from_f32(source[i]) : bf16_from_f32(source[i]);
}

/// Element `i` of a packed array, its lowest bits first.
uint8_t unpack(uint8_t const* source, int bits, int64_t i) {
    auto bit = i * bits;
    return static_cast<uint8_t>(source[bit >> 3] >> (bit & 7) & ((1 << bits) - 1));
}

/// Packs `count` codes; the unused bits of the last byte become zero.
void pack(uint8_t const* codes, int bits, uint8_t* target, int64_t count) {
    int64_t each = 8 / bits;
    for (int64_t i = 0; i < count; i += each) {
        uint32_t byte = 0;
        for (int64_t k = 0; k < std::min(each, count - i); ++k)
            byte |= (codes[i + k] & ((1u << bits) - 1)) << (k * bits);
        target[i / each] = static_cast<uint8_t>(byte);
    }
}

void decode(DataType type, void const* source, void* carrier, int64_t count) {
    auto const* bytes = static_cast<uint8_t const*>(source);
    int bits = bits_of(type);
    if (bits == 16) return decode_half(type, static_cast<uint16_t const*>(source), static_cast<float*>(carrier), count);
    if (is_float(type)) {
        float table[256];
        for (int code = 0; code < 1 << bits; ++code) table[code] = f32_from_f8(type, static_cast<uint8_t>(code));
        auto* out = static_cast<float*>(carrier);
        for (int64_t i = 0; i < count; ++i) out[i] = table[bits == 8 ? bytes[i] : unpack(bytes, bits, i)];
        return;
    }
    auto* out = static_cast<uint8_t*>(carrier);
    uint8_t sign = is_signed(type) ? static_cast<uint8_t>(1 << (bits - 1)) : 0;
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>((unpack(bytes, bits, i) ^ sign) - sign);
}

void encode(DataType type, void const* carrier, void* target, int64_t count, bool saturate, ScaleRounding rounding) {
    int bits = bits_of(type);
    if (bits == 16) return encode_half(type, static_cast<float const*>(carrier), static_cast<uint16_t*>(target), count);
    if (!is_float(type)) return pack(static_cast<uint8_t const*>(carrier), bits, static_cast<uint8_t*>(target), count);
    auto const* values = static_cast<float const*>(carrier);
    uint8_t codes[kBlock];
    auto* out = bits == 8 ? static_cast<uint8_t*>(target) : codes;
    for (int64_t i = 0; i < count; ++i) out[i] = f8_from_f32(type, values[i], saturate, rounding);
    if (bits < 8) pack(codes, bits, static_cast<uint8_t*>(target), count);
}

void cast_carriers(DataType from, void const* source, DataType to, bool odd, void* target, int64_t count) {
    with_native(from, [&](auto source_tag) {
        using From = typename decltype(source_tag)::type;
        auto const* in = static_cast<From const*>(source);
        if (odd) return cast_all(in, static_cast<OddF32*>(target), count);
        with_native(to, [&](auto target_tag) {
            cast_all(in, static_cast<typename decltype(target_tag)::type*>(target), count);
        });
    });
}

}  // namespace

bool convert(DataType from, void const* source, DataType to, void* target, int64_t count, bool saturate,
             ScaleRounding rounding) {
    auto from_carrier = carrier_of(from), to_carrier = carrier_of(to);
    if (from_carrier == DataType::Undefined || to_carrier == DataType::Undefined) return false;
    if (count <= 0) return true;
    if (from == to) {
        std::memcpy(target, source, storage_bytes(to, count));
        return true;
    }
    bool decodes = from_carrier != from, encodes = to_carrier != to;
    bool odd = encodes && to_carrier == DataType::F32;
    if (!decodes && !encodes) {
        cast_carriers(from, source, to, false, target, count);
        return true;
    }
    alignas(64) double decoded[kBlock], narrowed[kBlock];
    for (int64_t begin = 0; begin < count; begin += kBlock) {
        auto n = std::min(kBlock, count - begin);
        void const* in = static_cast<char const*>(source) + storage_bytes(from, begin);
        void* out = static_cast<char*>(target) + storage_bytes(to, begin);
        if (decodes) {
            // Straight to the target where the carrier is the target.
            void* place = to == from_carrier ? out : decoded;
            decode(from, in, place, n);
            if (place == out) continue;
            in = decoded;
        }
        if (encodes && from_carrier == to_carrier) {
            encode(to, in, out, n, saturate, rounding);
        } else if (encodes) {
            cast_carriers(from_carrier, in, to_carrier, odd, narrowed, n);
            encode(to, narrowed, out, n, saturate, rounding);
        } else {
            cast_carriers(from_carrier, in, to, false, out, n);
        }
    }
    return true;
}

}  // namespace refactor
