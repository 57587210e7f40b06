#pragma once
// Casts to wider integers. Internal linkage.
#include "elementwise/tile_loops.h"

#include <immintrin.h>

namespace refactor::kernel::elementwise {
namespace {

RG_INLINE __m256i widened(uint8_t const* p, int32_t) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(p)));
}
RG_INLINE __m256i widened(int8_t const* p, int32_t) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<__m128i const*>(p)));
}
RG_INLINE __m256i widened(uint8_t const* p, int64_t) { return _mm256_cvtepu8_epi64(_mm_loadu_si32(p)); }
RG_INLINE __m256i widened(int8_t const* p, int64_t) { return _mm256_cvtepi8_epi64(_mm_loadu_si32(p)); }

/// Bytes to i32 and i64.
template <class R, class A>
void widen_bytes(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<A const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<R*>(slots[op.out]);
    int64_t const mask = mask_of(op, 0), blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += kBlock)
#pragma GCC unroll 4
        for (int j = 0; j < kBlock; j += 32 / static_cast<int>(sizeof(R)))
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + j), widened(a + (i & mask) + j, R{}));
    for (int64_t i = blocks; i < n; ++i) out[i] = a[i & mask];
}

/// Eight by conversions to i32, where none is beyond it.
void floats_to_i64(TileOp const& op, std::byte* const* slots, int64_t n) {
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto* out = reinterpret_cast<int64_t*>(slots[op.out]);
    int64_t const mask = mask_of(op, 0), blocks = whole_blocks(op, n);
    for (int64_t i = 0; i < blocks; i += 8) {
        auto const* from = a + (i & mask);
        __m256i words = _mm256_cvttps_epi32(_mm256_loadu_ps(from));
        if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(words, _mm256_set1_epi32(INT32_MIN)))) {
            for (int j = 0; j < 8; ++j) out[i + j] = _mm_cvttss_si64(_mm_set_ss(from[j]));
            continue;
        }
        auto* to = reinterpret_cast<__m256i*>(out + i);
        _mm256_storeu_si256(to, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(words)));
        _mm256_storeu_si256(to + 1, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(words, 1)));
    }
    for (int64_t i = blocks; i < n; ++i) out[i] = _mm_cvttss_si64(_mm_set_ss(a[i & mask]));
}

TileFunction widening_function(TileKey key) {
    bool wide = key.result == DataType::I64;
    if (!wide && key.result != DataType::I32) return nullptr;
    if (key.operand == DataType::I8) return wide ? widen_bytes<int64_t, int8_t> : widen_bytes<int32_t, int8_t>;
    if (key.operand == DataType::U8) return wide ? widen_bytes<int64_t, uint8_t> : widen_bytes<int32_t, uint8_t>;
    return wide && key.operand == DataType::F32 ? floats_to_i64 : nullptr;
}

}  // namespace
}  // namespace refactor::kernel::elementwise
