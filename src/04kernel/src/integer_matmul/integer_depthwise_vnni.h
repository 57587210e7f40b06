#pragma once
// Depthwise convolution with four taps in a dword; include behind `integer_product_impl.h`, for AVX-512 VNNI only.
//
// Bytes of 64 channels under four taps are interleaved by unpacking, which leaves channel 16 l + 4 k + j in dword j of
// 128-bit lane l of vector k. Packing with saturation brings results back into order.

namespace refactor::kernel {
namespace {

/// Numbers of 64 channels from `p` on in the order of the vectors.
RG_SIMD void load_unpacked(void const* p, __m512i (&v)[4]) {
    auto const* from = static_cast<__m128i const*>(p);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
        __m512i x = _mm512_castsi128_si512(_mm_loadu_si128(from + k));
        x = _mm512_inserti32x4(x, _mm_loadu_si128(from + 4 + k), 1);
        x = _mm512_inserti32x4(x, _mm_loadu_si128(from + 8 + k), 2);
        v[k] = _mm512_inserti32x4(x, _mm_loadu_si128(from + 12 + k), 3);
    }
}

/// Of windows for which weights are copied to the stack, 4 KiB.
constexpr int64_t kMostTaps = 64;

struct ByteBounds {
    __m512 low, high;
    __m512i flip;
    bool small, rounded;
    __m512 middle_low, middle_high, middle_scale;
    Packing packing;
};

/// Bytes of 64 results in order.
RG_SIMD __m512i finish_unpacked(__m512i const (&sum)[4], __m512i const (&scale)[4], ByteBounds const& b) {
    __m512i result[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
        __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[k]), _mm512_castsi512_ps(scale[k]));
        if (b.rounded)
            value =
                _mm512_mul_ps(_mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(value, 8), b.middle_low), b.middle_high),
                              b.middle_scale);
        if (!b.small) value = _mm512_min_ps(_mm512_max_ps(value, b.low), b.high);
        result[k] = _mm512_cvtps_epi32(value);
    }
    return b.packing.pack_unpacked(result);
}

/// Bytes of `mask`; `whole`: that is all of them, as a load with a mask takes twice as long on some processors.
template <bool whole>
RG_SIMD __m512i load_some(uint8_t const* p, __mmask64 mask) {
    return whole ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(mask, p);
}

/// c += four taps.
RG_SIMD void add_taps(__m512i (&c)[4], __m512i const (&t)[4], int8_t const* w) {
    __m512i a = _mm512_unpacklo_epi8(t[0], t[1]), b = _mm512_unpackhi_epi8(t[0], t[1]);
    __m512i d = _mm512_unpacklo_epi8(t[2], t[3]), e = _mm512_unpackhi_epi8(t[2], t[3]);
    c[0] = _mm512_dpbusd_epi32(c[0], _mm512_unpacklo_epi16(a, d), _mm512_loadu_si512(w));
    c[1] = _mm512_dpbusd_epi32(c[1], _mm512_unpackhi_epi16(a, d), _mm512_loadu_si512(w + 64));
    c[2] = _mm512_dpbusd_epi32(c[2], _mm512_unpacklo_epi16(b, e), _mm512_loadu_si512(w + 128));
    c[3] = _mm512_dpbusd_epi32(c[3], _mm512_unpackhi_epi16(b, e), _mm512_loadu_si512(w + 192));
}

template <bool full, bool nine>
RG_SIMD void depthwise_block(DepthwiseBlock const& t, ByteBounds const& bounds, int64_t channel) {
    int64_t groups = (t.taps + 3) / 4;
    __mmask64 mask = first_bytes(t.channels - channel);
    auto load = [&](uint8_t const* p) __attribute__((always_inline)) {
        return _mm512_xor_si512(load_some<full>(p, mask), bounds.flip);
    };
    __m512i add[4], scale[4];
    load_unpacked(t.column_add + channel, add);
    load_unpacked(t.scale + channel, scale);
    int8_t const* weights = t.bytes + channel * groups * 4;
    __m512i const none = _mm512_setzero_si512();
    for (int64_t i = 0; i < t.window_count; ++i) {
        uint8_t const* corner = t.windows[i].corner + channel;
        int64_t const* x = t.windows[i].offsets;
        __m512i c[4] = {add[0], add[1], add[2], add[3]};
        int8_t const* w = weights;
        int64_t tap = 0, whole = nine ? 8 : t.taps - t.taps % 4;
#pragma GCC unroll 2
        for (; tap < whole; tap += 4, w += 256) {
            __m512i v[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) v[j] = load(corner + x[tap + j]);
            add_taps(c, v, w);
        }
        if (nine) {
            __m512i v[4] = {load(corner + x[8]), none, none, none};
            add_taps(c, v, w);
        } else if (tap < t.taps) {
            __m512i v[4] = {none, none, none, none};
#pragma GCC unroll 3
            for (int j = 0; j < 3; ++j)
                if (tap + j < t.taps) v[j] = load(corner + x[tap + j]);
            add_taps(c, v, w);
        }
        _mm512_mask_storeu_epi8(static_cast<uint8_t*>(t.y) + i * t.y_row + channel, mask,
                                finish_unpacked(c, scale, bounds));
    }
}

/// Bytes at two places, those of `mask` from each, which are in the lower half; `whole`: all of that.
template <bool whole>
RG_SIMD __m512i load_two(uint8_t const* p, uint8_t const* q, __mmask64 mask) {
    if (!whole) return _mm512_mask_loadu_epi8(_mm512_maskz_loadu_epi8(mask, p), mask << 32, q - 32);
    auto load = [](uint8_t const* from) { return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from)); };
    return _mm512_inserti64x4(_mm512_castsi256_si512(load(p)), load(q), 1);
}

RG_SIMD __m512i low_twice(__m512i x) { return _mm512_shuffle_i64x2(x, x, 0x44); }

/// Up to 32 channels from `channel` on, whose numbers fill lanes 0 and 1: two positions at a time.
template <bool whole>
RG_SIMD void depthwise_half(DepthwiseBlock const& t, ByteBounds const& bounds, int64_t channel) {
    int64_t left = t.channels - channel, groups = (t.taps + 3) / 4;
    __mmask64 mask = first_bytes(left);
    auto half = static_cast<__mmask32>(mask);
    __m512i add[4], scale[4];
    load_unpacked(t.column_add + channel, add);
    load_unpacked(t.scale + channel, scale);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) add[k] = low_twice(add[k]), scale[k] = low_twice(scale[k]);
    // Weights of both halves alike.
    alignas(64) int8_t weights[kMostTaps / 4 * 256];
    for (int64_t i = 0; i < groups * 4; ++i)
        _mm512_store_si512(weights + i * 64, low_twice(_mm512_loadu_si512(t.bytes + channel * groups * 4 + i * 64)));
    __m512i const none = _mm512_setzero_si512();
    for (int64_t i = 0; i < t.window_count; i += 2) {
        bool two = i + 1 < t.window_count;
        DepthwiseWindow const &a = t.windows[i], &b = t.windows[two ? i + 1 : i];
        uint8_t const *here = a.corner + channel, *there = b.corner + channel;
        __m512i c[4] = {add[0], add[1], add[2], add[3]};
        for (int64_t tap = 0; tap < t.taps; tap += 4) {
            __m512i v[4] = {none, none, none, none};
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j)
                if (tap + j < t.taps)
                    v[j] = _mm512_xor_si512(
                        load_two<whole>(here + a.offsets[tap + j], there + b.offsets[tap + j], mask), bounds.flip);
            add_taps(c, v, weights + tap * 64);
        }
        __m512i bytes = finish_unpacked(c, scale, bounds);
        auto* y = static_cast<uint8_t*>(t.y) + i * t.y_row + channel;
        _mm256_mask_storeu_epi8(y, half, _mm512_castsi512_si256(bytes));
        if (two) _mm256_mask_storeu_epi8(y + t.y_row, half, _mm512_extracti64x4_epi64(bytes, 1));
    }
}

}  // namespace
}  // namespace refactor::kernel

#include "integer_matmul/integer_depthwise_pairs_vnni.h"

namespace refactor::kernel {
namespace {

void depthwise_bytes(DepthwiseBlock const& t) {
    Finish f = finish_of(t.tail);
    ByteBounds bounds{f.low.v,
                      f.high.v,
                      _mm512_set1_epi8(static_cast<char>(t.flip)),
                      are_small(t.scale, t.channels) && is_middle_small(t.tail),
                      f.rounded,
                      f.middle_low.v,
                      f.middle_high.v,
                      f.middle_scale.v,
                      Packing::of(f)};
    if (t.quads == 3) return depthwise_all_pairs<3>(t, bounds);
    if (t.quads) return depthwise_all_pairs<0>(t, bounds);
    int64_t channel = 0;
    for (; t.channels - channel >= 64; channel += 64)
        t.taps == 9 ? depthwise_block<true, true>(t, bounds, channel)
                    : depthwise_block<true, false>(t, bounds, channel);
    int64_t left = t.channels - channel;
    if (left == 32 && t.taps <= kMostTaps) return depthwise_half<true>(t, bounds, channel);
    if (left > 0 && left < 32 && t.taps <= kMostTaps) return depthwise_half<false>(t, bounds, channel);
    if (left > 0) depthwise_block<false, false>(t, bounds, channel);
}

}  // namespace
}  // namespace refactor::kernel
