#pragma once
// f32 as bytes by a scale and a zero point; part of `vec_bytes.h`.

namespace refactor::kernel::elementwise {
namespace {

#ifdef __AVX512F__
/// round(x) + zero, saturated; NaN becomes zero. Both are small integers when rounded, or NaN.
RG_SIMD void store_rounded(Vec x, Vec zero, bool is_signed, uint8_t* p) {
    __mmask16 number = _mm512_cmp_ps_mask(x.v, x.v, _CMP_ORD_Q);
    __m512i sum = _mm512_add_epi32(_mm512_cvtps_epi32(x.v), _mm512_cvtps_epi32(zero.v));
    __m128i bytes = is_signed ? _mm512_maskz_cvtsepi32_epi8(number, sum)
                              : _mm512_maskz_cvtusepi32_epi8(number, _mm512_max_epi32(sum, _mm512_setzero_si512()));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
#else
/// round(x) + zero, saturated; NaN becomes zero.
RG_SIMD void store_rounded(Vec x, Vec zero, bool is_signed, uint8_t* p) {
    Vec low = Vec::set(is_signed ? -128 : 0), high = Vec::set(is_signed ? 127 : 255);
    store_bytes(min(high, max(low, round(x) + zero)), p);
}
#endif

/// Division by one number in multiplications: its reciprocal is known to twice the precision, so that the first
/// quotient is off by less than a unit in the last place, and its remainder, which is exact, corrects it. Quotients and
/// remainders that are normal numbers come out as those of a division (P. Markstein, IBM Journal of Research and
/// Development 34, 1990).
struct Divisor {
    Vec divisor, high, low;

    RG_SIMD explicit Divisor(float by) : divisor(Vec::set(by)), high(Vec::set(1.f) / divisor) {
        low = fnma(high, divisor, Vec::set(1.f)) * high;
    }
    RG_SIMD Vec operator()(Vec x) const {
        Vec quotient = fma(x, high, x * low);
        return fma(fnma(quotient, divisor, x), high, quotient);
    }
};

/// Far beyond what bytes and their zero points hold.
constexpr float kMostSteps = 8192;

#ifdef __AVX512F__
/// round(quotient) + zero, saturated, of 64 numbers at a time; returns how many were stored.
template <bool kSigned, class F>
RG_SIMD int64_t quantize_packed(float const* a, float zero, uint8_t* out, int64_t n, F&& quotient) {
    __m512i const order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i const words = _mm512_set1_epi16(static_cast<int16_t>(zero));
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        Vec value[4];
        __m512i x[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
            value[k] = quotient(Vec::load(a + i + k * 16));
            x[k] = _mm512_cvtps_epi32(value[k].v);
        }
        __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(x[0], x[1]), words);
        __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(x[2], x[3]), words);
        __m512i bytes = kSigned ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
        bytes = _mm512_permutexvar_epi32(order, bytes);
        // NaN converts to the least i32, which is zero as u8.
        __mmask16 numbers = _mm512_cmp_ps_mask(value[0].v, value[1].v, _CMP_ORD_Q) &
                            _mm512_cmp_ps_mask(value[2].v, value[3].v, _CMP_ORD_Q);
        if (kSigned && numbers != 0xffff) [[unlikely]] {
            for (int k = 0; k < 4; ++k) store_rounded(value[k], Vec::set(zero), kSigned, out + i + k * 16);
            continue;
        }
        _mm512_storeu_si512(out + i, bytes);
    }
    return i;
}
#else
/// The same of 32 numbers at a time.
template <bool kSigned, class F>
RG_SIMD int64_t quantize_packed(float const* a, float zero, uint8_t* out, int64_t n, F&& quotient) {
    __m256i const order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i const words = _mm256_set1_epi16(static_cast<int16_t>(zero));
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        Vec value[4];
        __m256i x[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
            value[k] = quotient(Vec::load(a + i + k * 8));
            x[k] = _mm256_cvtps_epi32(value[k].v);
        }
        __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(x[0], x[1]), words);
        __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(x[2], x[3]), words);
        __m256i bytes = kSigned ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
        // NaN converts to the least i32, which is zero as u8.
        __m256 nan = _mm256_or_ps(_mm256_cmp_ps(value[0].v, value[1].v, _CMP_UNORD_Q),
                                  _mm256_cmp_ps(value[2].v, value[3].v, _CMP_UNORD_Q));
        if (kSigned && _mm256_movemask_ps(nan)) [[unlikely]] {
            for (int k = 0; k < 4; ++k) store_rounded(value[k], Vec::set(zero), kSigned, out + i + k * 8);
            continue;
        }
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permutevar8x32_epi32(bytes, order));
    }
    return i;
}
#endif

/// `quotient` of blocks of x and scales, which is at most about `kMostSteps`, rounded + zero.
template <bool kSigned, class F>
RG_SIMD void quantize_blocks(TileOp const& op, std::byte* const* slots, int64_t n, F&& quotient) {
    auto const* a = reinterpret_cast<float const*>(slots[op.in[0]]);
    auto const* zero = reinterpret_cast<float const*>(slots[op.in[1]]);
    auto const* scale = reinterpret_cast<float const*>(slots[op.in[2]]);
    auto* out = reinterpret_cast<uint8_t*>(slots[op.out]);
    int64_t const mask_a = mask_of(op, 0), mask_zero = mask_of(op, 1), mask_scale = mask_of(op, 2);
    auto store = [&](Vec x, Vec z, Vec s, uint8_t * p) __attribute__((always_inline)) {
        store_rounded(quotient(x, s), z, kSigned, p);
    };
    if (op.padded) n = whole_blocks(op, n);
    int64_t i = 0;
    bool one_scale_and_zero = (op.repeated & 7) == 6;
    if (one_scale_and_zero && zero[0] >= -128 && zero[0] <= 255) {
        Vec s = Vec::load(scale);
        i = quantize_packed<kSigned>(
            a, zero[0], out, n, [&](Vec x) __attribute__((always_inline)) { return quotient(x, s); });
    }
    for (; i + kBlock <= n; i += kBlock) {
        auto const *x = a + (i & mask_a), *z = zero + (i & mask_zero), *s = scale + (i & mask_scale);
#pragma GCC unroll 2
        for (int j = 0; j < kBlock; j += Vec::width)
            store(Vec::load(x + j), Vec::load(z + j), Vec::load(s + j), out + i + j);
    }
    for (; i < n; i += Vec::width) {
        alignas(64) uint8_t part[64];
        int64_t left = n - i < Vec::width ? n - i : Vec::width;
        store(load_lanes(a + (i & mask_a), left), load_lanes(zero + (i & mask_zero), left),
              load_lanes(scale + (i & mask_scale), left), part);
        for (int64_t j = 0; j < left; ++j) out[i + j] = part[j];
    }
}

/// round(x / scale) + zero. One scale for all divides by multiplications, where nothing that counts can underflow: a
/// number too small for exact remainders is then far below half of the scale.
template <bool kSigned>
void quantize(TileOp const& op, std::byte* const* slots, int64_t n) {
    constexpr float kRange = 1152921504606846976.f;  // 2^60
    float scale = *reinterpret_cast<float const*>(slots[op.in[2]]), size = scale < 0 ? -scale : scale;
    // NaN, the second operand, stays NaN.
    if (!(op.repeated & 4) || !(size < kRange && size > 1 / kRange)) {
        Vec most = Vec::set(kMostSteps);
        return quantize_blocks<kSigned>(
            op, slots, n, [&](Vec x, Vec s) __attribute__((always_inline)) { return min(most, max(-most, x / s)); });
    }
    Divisor divide(scale);
    Vec most = Vec::set(size * kMostSteps);
    quantize_blocks<kSigned>(
        op, slots, n, [&](Vec x, Vec) __attribute__((always_inline)) { return divide(min(most, max(-most, x))); });
}

}  // namespace
}  // namespace refactor::kernel::elementwise
