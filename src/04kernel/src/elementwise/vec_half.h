#pragma once
// f16 and bf16 against f32: loads, stores, rounding. Needs F16C. Internal linkage.
#include "elementwise/tile_loops.h"

#include <immintrin.h>

namespace refactor::kernel::elementwise {
namespace {

RG_INLINE uint16_t f16_bits(float x) { return static_cast<uint16_t>(_cvtss_sh(x, 0)); }
RG_INLINE float f16_value(uint16_t x) { return _cvtsh_ss(x); }
RG_INLINE uint16_t bf16_bits(float x) {
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}
RG_INLINE float bf16_value(uint16_t x) {
    uint32_t bits = static_cast<uint32_t>(x) << 16;
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
}

struct Bf16Store {
    explicit Bf16Store(TileOp const&) {}
    RG_INLINE uint16_t operator()(float x) const { return bf16_bits(x); }
};
struct Bf16Load {
    explicit Bf16Load(TileOp const&) {}
    RG_INLINE float operator()(uint16_t x) const { return bf16_value(x); }
};
struct Bf16Round {
    explicit Bf16Round(TileOp const&) {}
    RG_INLINE float operator()(float x) const { return bf16_value(bf16_bits(x)); }
};

/// f16 through the conversion instructions, eight elements at a time. kStore and kLoad tell what the sides are.
template <bool kLoad, bool kStore>
void f16_loop(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = slots[op.in[0]];
    auto* out = slots[op.out];
    constexpr int64_t kIn = kLoad ? 2 : 4, kOut = kStore ? 2 : 4;
    int64_t const mask = mask_of(op, 0);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        auto const* from = a + (i & mask) * kIn;
        __m256 x;
        if constexpr (kLoad)
            x = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<__m128i const*>(from)));
        else
            x = _mm256_loadu_ps(reinterpret_cast<float const*>(from));
        __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
        if constexpr (kStore)
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * kOut), half);
        else if constexpr (kLoad)
            _mm256_storeu_ps(reinterpret_cast<float*>(out + i * kOut), x);
        else
            _mm256_storeu_ps(reinterpret_cast<float*>(out + i * kOut), _mm256_cvtph_ps(half));
    }
    for (; i < n; ++i) {
        auto const* from = a + (i & mask) * kIn;
        float x;
        if constexpr (kLoad)
            x = f16_value(*reinterpret_cast<uint16_t const*>(from));
        else
            x = *reinterpret_cast<float const*>(from);
        if constexpr (kStore)
            *reinterpret_cast<uint16_t*>(out + i * kOut) = f16_bits(x);
        else
            *reinterpret_cast<float*>(out + i * kOut) = kLoad ? x : f16_value(f16_bits(x));
    }
}

TileFunction half_function(TileKey key) {
    bool round = key.code == TileCode::Round;
    if (key.operand == DataType::F16) return round ? f16_loop<false, false> : f16_loop<true, false>;
    if (key.operand == DataType::BF16)
        return round ? unary_loop<float, float, Bf16Round> : unary_loop<float, uint16_t, Bf16Load>;
    if (key.result == DataType::F16) return f16_loop<false, true>;
    if (key.result == DataType::BF16) return unary_loop<uint16_t, float, Bf16Store>;
    return nullptr;
}

}  // namespace
}  // namespace refactor::kernel::elementwise
