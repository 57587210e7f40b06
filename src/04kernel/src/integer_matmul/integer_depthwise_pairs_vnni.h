#pragma once
// Depthwise convolution of two positions at once; part of `integer_depthwise_vnni.h`.
//
// Four pixels of a line that are next to each other, interleaved, serve the windows of both positions with different
// weights: for 3 × 3 windows, a third of the unpacking that positions need each on their own.

namespace refactor::kernel {
namespace {

/// Pixels interleaved: channel 16 l + 4 k + j has its four bytes in dword j of lane l of vector k.
RG_SIMD void interleave(__m512i const (&pixel)[4], __m512i (&quad)[4]) {
    __m512i a = _mm512_unpacklo_epi8(pixel[0], pixel[1]), b = _mm512_unpackhi_epi8(pixel[0], pixel[1]);
    __m512i d = _mm512_unpacklo_epi8(pixel[2], pixel[3]), e = _mm512_unpackhi_epi8(pixel[2], pixel[3]);
    quad[0] = _mm512_unpacklo_epi16(a, d), quad[1] = _mm512_unpackhi_epi16(a, d);
    quad[2] = _mm512_unpacklo_epi16(b, e), quad[3] = _mm512_unpackhi_epi16(b, e);
}
RG_SIMD void add_quad(__m512i (&c)[4], __m512i const (&quad)[4], int8_t const* w) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) c[k] = _mm512_dpbusd_epi32(c[k], quad[k], _mm512_loadu_si512(w + 64 * k));
}

/// 64 channels, or with `halves` up to 32 of two pairs at once. Every quad serves both positions of a pair. `whole`:
/// that many channels are left.
template <bool whole, bool halves, bool flips, int quads>
RG_SIMD void depthwise_pairs(DepthwiseBlock const& t, ByteBounds const& bounds, int64_t channel,
                             int8_t const* weights) {
    int64_t left = t.channels - channel, count = quads ? quads : t.quads;
    __mmask64 mask = first_bytes(left);
    auto half = static_cast<__mmask32>(mask);
    __m512i add[4], scale[4];
    load_unpacked(t.column_add + channel, add);
    load_unpacked(t.scale + channel, scale);
    if (halves)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) add[k] = low_twice(add[k]), scale[k] = low_twice(scale[k]);
    constexpr int64_t kStep = halves ? 2 : 1;
    for (int64_t i = 0; i < t.window_count; i += kStep) {
        int64_t other = halves && i + 1 < t.window_count ? i + 1 : i;
        DepthwiseWindow const &a = t.windows[i], &b = t.windows[other];
        uint8_t const *x = a.corner + channel, *z = b.corner + channel;
        __m512i first[4] = {add[0], add[1], add[2], add[3]}, second[4] = {add[0], add[1], add[2], add[3]};
        int8_t const* w = weights;
#pragma GCC unroll 3
        for (int64_t q = 0; q < count; ++q, w += 512) {
            __m512i pixel[4], quad[4];
#pragma GCC unroll 4
            for (int64_t j = 0; j < 4; ++j) {
                pixel[j] = halves ? load_two<whole>(x + a.offsets[q * 4 + j], z + b.offsets[q * 4 + j], mask)
                                  : load_some<whole>(x + a.offsets[q * 4 + j], mask);
                if (flips) pixel[j] = _mm512_xor_si512(pixel[j], bounds.flip);
            }
            interleave(pixel, quad);
            add_quad(first, quad, w);
            add_quad(second, quad, w + 256);
        }
        auto* y = static_cast<uint8_t*>(t.y) + channel;
        __m512i here = finish_unpacked(first, scale, bounds), next = finish_unpacked(second, scale, bounds);
        auto *at = y + a.position * t.y_row, *there = y + b.position * t.y_row;
        if (!halves) {
            _mm512_mask_storeu_epi8(at, mask, here);
            if (a.both) _mm512_mask_storeu_epi8(at + t.y_row, mask, next);
            continue;
        }
        _mm256_mask_storeu_epi8(at, half, _mm512_castsi512_si256(here));
        if (a.both) _mm256_mask_storeu_epi8(at + t.y_row, half, _mm512_castsi512_si256(next));
        if (other == i) continue;
        _mm256_mask_storeu_epi8(there, half, _mm512_extracti64x4_epi64(here, 1));
        if (b.both) _mm256_mask_storeu_epi8(there + t.y_row, half, _mm512_extracti64x4_epi64(next, 1));
    }
}

template <bool halves, int quads>
RG_SIMD void depthwise_pairs(DepthwiseBlock const& t, ByteBounds const& bounds, int64_t channel,
                             int8_t const* weights) {
    bool whole = t.channels - channel >= (halves ? 32 : 64);
    if (whole && t.flip) return depthwise_pairs<true, halves, true, quads>(t, bounds, channel, weights);
    if (whole) return depthwise_pairs<true, halves, false, quads>(t, bounds, channel, weights);
    if (t.flip) return depthwise_pairs<false, halves, true, quads>(t, bounds, channel, weights);
    depthwise_pairs<false, halves, false, quads>(t, bounds, channel, weights);
}

template <int quads>
RG_SIMD void depthwise_all_pairs(DepthwiseBlock const& t, ByteBounds const& bounds) {
    // Up to 15 quads (7 × 7 windows) of both halves alike, 8 KiB.
    constexpr int64_t kMostQuads = 16;
    for (int64_t channel = 0; channel < t.channels; channel += 64) {
        int8_t const* weights = t.bytes + channel * t.quads * 8;
        if (t.channels - channel > 32 || t.quads > kMostQuads) {
            depthwise_pairs<false, quads>(t, bounds, channel, weights);
            continue;
        }
        alignas(64) int8_t both[kMostQuads * 512];
        for (int64_t i = 0; i < t.quads * 8; ++i)
            _mm512_store_si512(both + i * 64, low_twice(_mm512_loadu_si512(weights + i * 64)));
        depthwise_pairs<true, quads>(t, bounds, channel, both);
    }
}

}  // namespace
}  // namespace refactor::kernel
