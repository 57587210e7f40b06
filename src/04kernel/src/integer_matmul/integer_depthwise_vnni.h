#pragma once
// Pixels of depthwise convolutions with four taps in a dword; include behind `integer_product_impl.h`, for AVX-512 VNNI
// only.
//
// Bytes of 64 channels are interleaved by unpacking, which leaves channel 16 l + 4 k + j in dword j of 128-bit lane l
// of vector k. Packing with saturation brings results back into order.

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

struct ByteBounds {
    __m512 low, high;
    __m512i flip;
    bool small, rounded;
    __m512 middle_low, middle_high, middle_scale;
    Packing packing;
};

/// What is stored of strips.
enum class StripStore : uint8_t {
    Small,    ///< bytes, small before they are bounded, and not rounded in between
    Shifted,  ///< the same with a shift
    Bytes,
    Reals
};
constexpr bool has_shift(StripStore store) { return store == StripStore::Shifted || store == StripStore::Reals; }

/// Bytes of 64 results in order.
template <StripStore kStore>
RG_SIMD __m512i finish_unpacked(__m512i const (&sum)[4], __m512i const (&scale)[4], __m512i const (&shift)[4],
                                ByteBounds const& b) {
    __m512i result[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
        __m512 value = scaled({sum[k]}, {_mm512_castsi512_ps(scale[k])}).v;
        if (kStore == StripStore::Bytes && b.rounded)
            value =
                _mm512_mul_ps(_mm512_min_ps(_mm512_max_ps(_mm512_roundscale_ps(value, 8), b.middle_low), b.middle_high),
                              b.middle_scale);
        if (kStore == StripStore::Shifted) value = _mm512_add_ps(value, _mm512_castsi512_ps(shift[k]));
        if (kStore != StripStore::Small && !b.small) value = _mm512_min_ps(_mm512_max_ps(value, b.low), b.high);
        result[k] = _mm512_cvtps_epi32(value);
    }
    return b.packing.pack_unpacked(result);
}

struct Reals {
    __m512 of[4];
};
/// Numbers of 64 results in order.
RG_SIMD Reals finish_reals(__m512i const (&sum)[4], __m512i const (&scale)[4], __m512i const (&shift)[4],
                           ByteBounds const& b) {
    __m512 v[4];
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
        __m512 value = scaled({sum[k]}, {_mm512_castsi512_ps(scale[k])}).v;
        value = _mm512_add_ps(value, _mm512_castsi512_ps(shift[k]));
        v[k] = _mm512_min_ps(b.high, _mm512_max_ps(b.low, value));  // NaN stays
    }
    // 128-bit lane l of vector k becomes lane k of vector l.
    __m512 a = _mm512_shuffle_f32x4(v[0], v[1], 0x44), c = _mm512_shuffle_f32x4(v[2], v[3], 0x44);
    __m512 d = _mm512_shuffle_f32x4(v[0], v[1], 0xee), e = _mm512_shuffle_f32x4(v[2], v[3], 0xee);
    return {{_mm512_shuffle_f32x4(a, c, 0x88), _mm512_shuffle_f32x4(a, c, 0xdd), _mm512_shuffle_f32x4(d, e, 0x88),
             _mm512_shuffle_f32x4(d, e, 0xdd)}};
}

/// Bytes of `mask`; `whole`: that is all of them, as a load with a mask takes twice as long on some processors.
template <bool whole>
RG_SIMD __m512i load_some(uint8_t const* p, __mmask64 mask) {
    return whole ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(mask, p);
}

/// Bytes at two places, those of `mask` from each, which are in the lower half; `whole`: all of that.
template <bool whole>
RG_SIMD __m512i load_two(uint8_t const* p, uint8_t const* q, __mmask64 mask) {
    if (!whole) return _mm512_mask_loadu_epi8(_mm512_maskz_loadu_epi8(mask, p), mask << 32, q - 32);
    auto load = [](uint8_t const* from) { return _mm256_loadu_si256(reinterpret_cast<__m256i const*>(from)); };
    return _mm512_inserti64x4(_mm512_castsi256_si512(load(p)), load(q), 1);
}

RG_SIMD __m512i low_twice(__m512i x) { return _mm512_shuffle_i64x2(x, x, 0x44); }

/// Four pixels interleaved: channel 16 l + 4 k + j has its four bytes in dword j of lane l of vector k.
RG_SIMD void interleave(__m512i const (&pixel)[4], __m512i (&quad)[4]) {
    __m512i a = _mm512_unpacklo_epi8(pixel[0], pixel[1]), b = _mm512_unpackhi_epi8(pixel[0], pixel[1]);
    __m512i d = _mm512_unpacklo_epi8(pixel[2], pixel[3]), e = _mm512_unpackhi_epi8(pixel[2], pixel[3]);
    quad[0] = _mm512_unpacklo_epi16(a, d), quad[1] = _mm512_unpackhi_epi16(a, d);
    quad[2] = _mm512_unpacklo_epi16(b, e), quad[3] = _mm512_unpackhi_epi16(b, e);
}

/// Channels of pixels, up to 64, or with `kHalves` up to 32 of two pixels. `kWhole`: so many channels are left.
template <bool kHalves, bool kWhole>
struct Pixels {
    __mmask64 mask;
    __m512i flip;

    RG_SIMD __m512i load(uint8_t const* first, uint8_t const* second) const {
        return _mm512_xor_si512(kHalves ? load_two<kWhole>(first, second, mask) : load_some<kWhole>(first, mask), flip);
    }
    RG_SIMD void store(__m512i bytes, uint8_t* first, uint8_t* second, bool both) const {
        if (!kHalves) return kWhole ? _mm512_storeu_si512(first, bytes) : _mm512_mask_storeu_epi8(first, mask, bytes);
        auto half = static_cast<__mmask32>(mask);
        _mm256_mask_storeu_epi8(first, half, _mm512_castsi512_si256(bytes));
        if (both) _mm256_mask_storeu_epi8(second, half, _mm512_extracti64x4_epi64(bytes, 1));
    }
    RG_SIMD void store(Reals const& x, uint8_t* first, uint8_t* second, bool both) const {
        auto* y = reinterpret_cast<float*>(first);
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            int part = kHalves ? v % 2 : v;
            if (kHalves && v == 2) {
                if (!both) return;
                y = reinterpret_cast<float*>(second);
            }
            auto some = static_cast<__mmask16>(mask >> (16 * part));
            if (kWhole)
                _mm512_storeu_ps(y + 16 * part, x.of[v]);
            else
                _mm512_mask_storeu_ps(y + 16 * part, some, x.of[v]);
        }
    }
};

/// Interleaved columns of four rows, one after the other.
template <bool kHalves, bool kWhole>
class Columns {
    Pixels<kHalves, kWhole> pixels_;
    uint8_t const *at_[4], *border_;
    int64_t step_[4], apart_[4];
    int64_t x_, other_, width_;

public:
    /// From column `first` on, and from `apart` columns behind it.
    RG_SIMD Columns(DepthwiseStrips const& t, DepthwiseRow const* rows, Pixels<kHalves, kWhole> const& pixels,
                    int64_t channel, int64_t first, int64_t apart)
        : pixels_(pixels), border_(t.border + channel), x_(first), other_(first + apart), width_(t.in_columns) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            step_[j] = rows[j].step, apart_[j] = apart * step_[j];
            at_[j] = rows[j].pixels + channel + first * step_[j];
        }
    }
    RG_SIMD void next(__m512i (&quad)[4]) {
        __m512i pixel[4];
        bool inside = static_cast<uint64_t>(x_) < static_cast<uint64_t>(width_);
        bool other_inside = static_cast<uint64_t>(other_) < static_cast<uint64_t>(width_);
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            pixel[j] = pixels_.load(inside ? at_[j] : border_, other_inside ? at_[j] + apart_[j] : border_);
            at_[j] += step_[j];
        }
        ++x_, ++other_;
        interleave(pixel, quad);
    }
};

}  // namespace
}  // namespace refactor::kernel
