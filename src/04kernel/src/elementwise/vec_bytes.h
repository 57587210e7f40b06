#pragma once
// u8 and i8 against f32. Needs a `simd/vec_*.h`. Internal linkage.
#include "elementwise/vec_loops.h"

namespace refactor::kernel::elementwise {
namespace {

#ifdef __AVX512F__
RG_SIMD Vec load_bytes(uint8_t const* p, bool is_signed) {
    __m128i bytes = _mm_loadu_si128(reinterpret_cast<__m128i const*>(p));
    return {_mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes))};
}
RG_SIMD void store_bytes(Vec v, uint8_t* p) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v.v)));
}
#else
RG_SIMD Vec load_bytes(uint8_t const* p, bool is_signed) {
    __m128i bytes = _mm_loadl_epi64(reinterpret_cast<__m128i const*>(p));
    return {_mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes))};
}
RG_SIMD void store_bytes(Vec v, uint8_t* p) {
    __m256i low = _mm256_shuffle_epi8(_mm256_cvttps_epi32(v.v), _mm256_set1_epi32(0x0c080400));
    __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), both);
}
#endif

template <bool kSigned>
void bytes_to_floats(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<uint8_t const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    int64_t const mask = mask_of(op, 0), blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock)
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width) load_bytes(a + (i & mask) + j, kSigned).store(out + i + j);
    for (int64_t i = blocks; i < n; ++i) {
        auto byte = a[i & mask];
        out[i] = kSigned ? static_cast<float>(static_cast<int8_t>(byte)) : byte;
    }
}

/// Truncated; what no i32 holds becomes its lowest, whose low byte is zero. The same bits for u8 and i8.
void floats_to_bytes(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<uint8_t*>(slots[op.out]);
    int64_t const mask = mask_of(op, 0), blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock)
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width) store_bytes(Vec::load(a + (i & mask) + j), out + i + j);
    for (int64_t i = blocks; i < n; ++i) out[i] = static_cast<uint8_t>(_mm_cvttss_si32(_mm_set_ss(a[i & mask])));
}

template <bool kSigned>
void dequantize(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<uint8_t const*>(slots[op.in[0]]);
    auto const* zero = reinterpret_cast<float const*>(slots[op.in[1]]);
    auto const* scale = reinterpret_cast<float const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<float*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_zero = mask_of(op, 1), mask_scale = mask_of(op, 2);
    int64_t const blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock) {
        auto const* x = a + (i & mask_a);
        auto const *z = zero + (i & mask_zero), *s = scale + (i & mask_scale);
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width)
            ((load_bytes(x + j, kSigned) - Vec::load(z + j)) * Vec::load(s + j)).store(out + i + j);
    }
    for (int64_t i = blocks; i < n; ++i) {
        auto byte = a[i & mask_a];
        float value = kSigned ? static_cast<float>(static_cast<int8_t>(byte)) : byte;
        out[i] = (value - zero[i & mask_zero]) * scale[i & mask_scale];
    }
}

/// NaN becomes zero, as when it is clipped and truncated.
template <bool kSigned>
void round_to_byte(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto const* zero = reinterpret_cast<float const*>(slots[op.in[1]]);
    auto* out = reinterpret_cast<uint8_t*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_zero = mask_of(op, 1), blocks = whole_blocks(op, n);
    Vec low = Vec::set(kSigned ? -128 : 0), high = Vec::set(kSigned ? 127 : 255);
    auto value = [&](Vec x, Vec z) __attribute__((always_inline)) { return min(high, max(low, round(x) + z)); };
    for (int64_t i = 0; i < blocks; i += kBlock) {
        auto const *x = a + (i & mask_a), *z = zero + (i & mask_zero);
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width)
            store_bytes(value(Vec::load(x + j), Vec::load(z + j)), out + i + j);
    }
    for (int64_t i = blocks; i < n; i += Vec::width) {
        alignas(64) uint8_t part[64];
        int64_t left = n - i < Vec::width ? n - i : Vec::width;
        store_bytes(value(load_lanes(a + (i & mask_a), left), load_lanes(zero + (i & mask_zero), left)), part);
        for (int64_t j = 0; j < left; ++j) out[i + j] = part[j];
    }
}

}  // namespace
}  // namespace refactor::kernel::elementwise

#include "elementwise/vec_quantize.h"

namespace refactor::kernel::elementwise {
namespace {

TileFunction byte_function(TileKey key) {
    bool is_signed = key.operand == DataType::I8 || key.result == DataType::I8;
    if (key.code == TileCode::Dequantize) return is_signed ? dequantize<true> : dequantize<false>;
    if (key.code == TileCode::RoundToByte) return is_signed ? round_to_byte<true> : round_to_byte<false>;
    if (key.code == TileCode::QuantizeToByte) return is_signed ? quantize<true> : quantize<false>;
    bool to = key.result == DataType::U8 || key.result == DataType::I8;
    if (key.operand == DataType::F32) return to ? floats_to_bytes : nullptr;
    if (key.result != DataType::F32) return nullptr;
    if (key.operand == DataType::U8) return bytes_to_floats<false>;
    return key.operand == DataType::I8 ? bytes_to_floats<true> : nullptr;
}

}  // namespace
}  // namespace refactor::kernel::elementwise
