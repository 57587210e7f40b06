#pragma once
// Depthwise convolution with two taps in a dword; include behind `integer_product_impl.h`, for AVX2 only.
//
// Words of 16 channels under two taps are interleaved by unpacking, which leaves channels 0-3 and 8-11 in one vector of
// sums, 4-7 and 12-15 in the other. Packing with saturation brings results back into order.

namespace refactor::kernel {
namespace {

constexpr int64_t kPairChannels = 16;
/// Of windows for which weights are copied to the stack, 32 KiB; and of those that are found for each position.
constexpr int64_t kMostTaps = 1024, kMostTapsInPlace = 128;

/// Numbers of 16 channels from `p` on in the order of the two vectors.
RG_SIMD void load_unpacked(void const* p, __m256i (&v)[2]) {
    auto const* from = static_cast<__m128i const*>(p);
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k)
        v[k] = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(from + k)), _mm_loadu_si128(from + 2 + k),
                                       1);
}

/// Results of 16 channels as bytes in order. `shift`: null if there is none.
RG_SIMD __m128i finish_unpacked(__m256i const (&sum)[2], __m256i const (&scale)[2], __m256i const* shift,
                                Finish const& f) {
    __m256i result[2];
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
        Floats value = scaled({sum[k]}, {_mm256_castsi256_ps(scale[k])});
        if (f.rounded) value = round_middle(value, f);
        if (shift) value = value + Floats{_mm256_castsi256_ps(shift[k])};
        result[k] = (round(min(max(value, f.low), f.high)) + f.y_zero).v;
    }
    __m256i words = _mm256_packs_epi32(result[0], result[1]);
    __m256i bytes = f.store == IntegerStore::I8 ? _mm256_packs_epi16(words, words) : _mm256_packus_epi16(words, words);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(bytes, 0x08));
}

/// Results of 16 channels as f32 in order at `y`, not rounded in between.
RG_SIMD void store_reals(__m256i const (&sum)[2], __m256i const (&scale)[2], __m256i const* shift, Finish const& f,
                         float* y) {
    Floats v[2];
#pragma GCC unroll 2
    for (int k = 0; k < 2; ++k) {
        v[k] = scaled({sum[k]}, {_mm256_castsi256_ps(scale[k])});
        if (shift) v[k] = v[k] + Floats{_mm256_castsi256_ps(shift[k])};
        v[k] = min(f.high, max(f.low, v[k]));  // NaN stays
    }
    _mm256_storeu_ps(y, _mm256_permute2f128_ps(v[0].v, v[1].v, 0x20));
    _mm256_storeu_ps(y + 8, _mm256_permute2f128_ps(v[0].v, v[1].v, 0x31));
}

/// 16 channels at all positions. `nine`: taps; `in_place`: under `windows`.
template <bool nine, bool in_place>
RG_SIMD void depthwise_pairs(DepthwiseBlock const& t, Finish const& f, int64_t channel) {
    int64_t const taps = nine ? 9 : t.taps, full = taps / 2, whole = (taps + 1) / 2;
    alignas(32) __m256i w[kMostTaps / 2][2], add[2], scale[2], shift[2];
    load_unpacked(t.column_add + channel, add);
    load_unpacked(t.scale + channel, scale);
    if (t.shift) load_unpacked(t.shift + channel, shift);
    for (int64_t p = 0; p < whole; ++p) {
        __m256i first[2], second[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        load_unpacked(t.w + 2 * p * t.w_row + channel, first);
        if (2 * p + 1 < taps) load_unpacked(t.w + (2 * p + 1) * t.w_row + channel, second);
        for (int k = 0; k < 2; ++k) w[p][k] = _mm256_blend_epi16(first[k], _mm256_slli_epi32(second[k], 16), 0xaa);
    }
    __m128i const flip = _mm_set1_epi8(static_cast<char>(t.flip));
    auto load = [&](uint8_t const* p) __attribute__((always_inline)) {
        __m128i bytes = _mm_loadu_si128(reinterpret_cast<__m128i const*>(p));
        return _mm256_cvtepu8_epi16(in_place ? _mm_xor_si128(bytes, flip) : bytes);
    };
    for (int64_t i = 0; i < t.positions; ++i) {
        uint8_t const* x = (in_place ? t.windows[i].corner : t.x + t.offsets[i]) + channel;
        int64_t const* taps_at = in_place ? t.windows[i].offsets : t.tap_offsets;
        __m256i sum[2] = {add[0], add[1]};
        auto add_pair = [&](__m256i a, __m256i b, int64_t p) __attribute__((always_inline)) {
            sum[0] = _mm256_add_epi32(sum[0], _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), w[p][0]));
            sum[1] = _mm256_add_epi32(sum[1], _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), w[p][1]));
        };
#pragma GCC unroll 4
        for (int64_t p = 0; p < full; ++p) add_pair(load(x + taps_at[2 * p]), load(x + taps_at[2 * p + 1]), p);
        if (full < whole) add_pair(load(x + taps_at[2 * full]), _mm256_setzero_si256(), full);
        __m256i const* shifts = t.shift ? shift : nullptr;
        if (f.store == IntegerStore::F32)
            store_reals(sum, scale, shifts, f, static_cast<float*>(t.y) + i * t.y_row + channel);
        else
            _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<uint8_t*>(t.y) + i * t.y_row + channel),
                             finish_unpacked(sum, scale, shifts, f));
    }
}

/// To bytes, or f32 that was not rounded, without a residual by pairs of taps; all else, and channels that do not fill
/// 16, one by one.
void depthwise_of_words(DepthwiseBlock const& t) {
    Finish f = finish_of(t.tail);
    int64_t channel = 0;
    bool stores = !f.sloped && (element_bytes(f.store) == 1 || (f.store == IntegerStore::F32 && !f.rounded));
    if (stores && !t.residual && t.taps <= kMostTaps)
        for (; channel + kPairChannels <= t.channels; channel += kPairChannels)
            t.taps == 9 ? depthwise_pairs<true, false>(t, f, channel) : depthwise_pairs<false, false>(t, f, channel);
    if (channel < t.channels) depthwise_from(t, f, channel);
}

/// The same where X lies. The last 16 channels may overlap those before.
void depthwise_in_place(DepthwiseBlock const& t) {
    Finish f = finish_of(t.tail);
    for (int64_t first = 0; first < t.channels; first += kPairChannels) {
        int64_t channel = first < t.channels - kPairChannels ? first : t.channels - kPairChannels;
        t.taps == 9 ? depthwise_pairs<true, true>(t, f, channel) : depthwise_pairs<false, true>(t, f, channel);
    }
}

}  // namespace
}  // namespace refactor::kernel
