#include "block_matmul/block_bytes.h"

#include <immintrin.h>

#define RG_SIMD [[gnu::always_inline]] inline

namespace refactor::kernel {
namespace {

constexpr int kWidth = 16, kVectors = 2;
constexpr int64_t kPanel = BlockBytes::kPanel;
/// Of a tile: sums of a block and of all blocks take 24 of 32 registers, weights 4, an element of A and a mask 2.
constexpr int kRows = 6;

RG_SIMD int32_t load_dword(int8_t const* p) {
    int32_t value;
    __builtin_memcpy(&value, p, 4);
    return value;
}

/// Sums of a block that has no products yet.
template <bool has_zeros, int rows>
RG_SIMD void begin(BlockBytes const& t, int64_t row, uint8_t const* zeros, int64_t block,
                   __m512i (&c)[rows][kVectors]) {
    __m512i zero[kVectors];
    if (has_zeros)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
            zero[v] = _mm512_cvtepu8_epi32(
                _mm_loadu_si128(reinterpret_cast<__m128i const*>(zeros + block * kPanel + v * kWidth)));
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
        __m512i less = _mm512_set1_epi32(t.a_less[(row + i) * t.blocks + block]);
#pragma GCC unroll 2
        // Both fit in the lower i16 of their dwords, of which the upper ones of zero points are 0.
        for (int v = 0; v < kVectors; ++v)
            c[i][v] = has_zeros ? _mm512_dpwssd_epi32(_mm512_setzero_si512(), zero[v], less) : less;
    }
}

/// rows × kPanel results of a panel, of which `columns` are stored.
template <int bits, bool has_zeros, int rows>
[[gnu::noinline]] void tile(BlockBytes const& t, int64_t row, int64_t panel) {
    constexpr int kParts = 8 / bits;
    uint32_t const* q = t.q + panel * t.blocks * t.words * kPanel;
    float const* scales = t.scales + panel * t.blocks * kPanel;
    uint8_t const* zeros = has_zeros ? t.zeros + panel * t.blocks * kPanel : nullptr;
    int8_t const* a = t.a + row * t.a_row;
    __m512i const mask = _mm512_set1_epi8(static_cast<char>((1 << bits) - 1));
    __m512 sum[rows][kVectors];
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
    for (int64_t block = 0; block < t.blocks; ++block) {
        __m512i c[rows][kVectors];
        begin<has_zeros>(t, row, zeros, block, c);
        for (int64_t word = 0; word < t.words; ++word, q += kPanel, a += 4 * kParts) {
            __m512i packed[kVectors];
#pragma GCC unroll 2
            for (int v = 0; v < kVectors; ++v) packed[v] = _mm512_loadu_si512(q + v * kWidth);
#pragma GCC unroll 4
            for (int p = 0; p < kParts; ++p) {
                __m512i w[kVectors];
#pragma GCC unroll 2
                for (int v = 0; v < kVectors; ++v) {
                    w[v] = p ? _mm512_srli_epi32(packed[v], static_cast<unsigned>(p * bits)) : packed[v];
                    if (bits < 8) w[v] = _mm512_and_si512(w[v], mask);
                }
#pragma GCC unroll 6
                for (int i = 0; i < rows; ++i) {
                    __m512i x = _mm512_set1_epi32(load_dword(a + i * t.a_row + 4 * p));
#pragma GCC unroll 2
                    for (int v = 0; v < kVectors; ++v) {
                        c[i][v] = _mm512_dpbusd_epi32(c[i][v], w[v], x);
                        // g++ 12 would move sums between two registers for each, and spill.
                        asm("" : "+v"(c[i][v]));
                    }
                }
            }
        }
        __m512 scale[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) scale[v] = _mm512_loadu_ps(scales + block * kPanel + v * kWidth);
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            __m512 a_scale = _mm512_set1_ps(t.a_scales[(row + i) * t.blocks + block]);
#pragma GCC unroll 2
            for (int v = 0; v < kVectors; ++v)
                sum[i][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(c[i][v]), _mm512_mul_ps(scale[v], a_scale), sum[i][v]);
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
        int64_t j = panel * kPanel + v * kWidth, left = t.columns - j;
        auto some = static_cast<__mmask16>(left >= kWidth ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
        __m512 bias = t.bias ? _mm512_maskz_loadu_ps(some, t.bias + j) : _mm512_setzero_ps();
#pragma GCC unroll 6
        for (int i = 0; i < rows; ++i)
            _mm512_mask_storeu_ps(t.y + (row + i) * t.y_row + j, some, _mm512_add_ps(sum[i][v], bias));
    }
}

template <int bits, bool has_zeros>
void multiply_bits(BlockBytes const& t) {
    using Tile = void (*)(BlockBytes const&, int64_t, int64_t);
    constexpr Tile kTile[] = {nullptr,
                              tile<bits, has_zeros, 1>,
                              tile<bits, has_zeros, 2>,
                              tile<bits, has_zeros, 3>,
                              tile<bits, has_zeros, 4>,
                              tile<bits, has_zeros, 5>,
                              tile<bits, has_zeros, 6>};
    // Tiles of about the same height: low ones unpack weights for few rows.
    int64_t tiles = (t.rows + kRows - 1) / kRows;
    for (int64_t panel = 0; panel * kPanel < t.columns; ++panel)
        for (int64_t i = 0; i < tiles; ++i) {
            int64_t row = t.rows * i / tiles;
            kTile[t.rows * (i + 1) / tiles - row](t, row, panel);
        }
}

template <int bits>
void multiply_bits(BlockBytes const& t) {
    t.zeros ? multiply_bits<bits, true>(t) : multiply_bits<bits, false>(t);
}

void multiply(BlockBytes const& t) {
    if (t.bits == 2)
        multiply_bits<2>(t);
    else if (t.bits == 4)
        multiply_bits<4>(t);
    else
        multiply_bits<8>(t);
}

RG_SIMD __mmask16 first_of(int64_t n) { return static_cast<__mmask16>(n >= kWidth ? 0xffff : (1 << n) - 1); }

/// For every part of a dword its elements, of 16 that fill whole dwords.
RG_SIMD __m128i order_of(int32_t bits) {
    if (bits == 2) return _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    if (bits == 4) return _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    return _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

void round(RoundedRow const& t) {
    __m128i const order = order_of(t.bits);
    for (int64_t first = 0, b = 0; first < t.k; first += t.block, ++b) {
        int64_t end = t.k - first < t.block ? t.k - first : t.block;
        // As integers, magnitudes have the order of their values, and NaN is behind infinity.
        __m512i most = _mm512_setzero_si512(), sum = _mm512_setzero_si512();
        for (int64_t i = 0; i < end; i += kWidth) {
            __m512i x = _mm512_maskz_loadu_epi32(first_of(end - i), t.a + first + i);
            most = _mm512_max_epu32(most, _mm512_and_si512(x, _mm512_set1_epi32(0x7fffffff)));
        }
        float largest = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(most))));
        // 127 / largest must be finite; what is smaller is zero beside everything that is not.
        bool tiny = largest < 1e-36f, finite = largest < __builtin_inff();
        __m512 inverse = _mm512_set1_ps(tiny || !finite ? 0.f : 127.f / largest);
        for (int64_t i = 0; i < t.block; i += kWidth) {
            auto some = i < end ? first_of(end - i) : __mmask16{0};
            __m512i x = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(some, t.a + first + i), inverse));
            sum = _mm512_add_epi32(sum, x);
            _mm_storeu_si128(reinterpret_cast<__m128i*>(t.bytes + first + i),
                             _mm_shuffle_epi8(_mm512_cvtsepi32_epi8(x), order));
        }
        t.scales[b] = tiny ? 0 : finite ? largest / 127 : __builtin_nanf("");
        t.less[b] = static_cast<int32_t>(0u - static_cast<uint32_t>(_mm512_reduce_add_epi32(sum)) *
                                                  static_cast<uint32_t>(t.zero));
    }
}

}  // namespace

BlockBytesFunctions const& block_bytes_avx512vnni() {
    static constexpr BlockBytesFunctions kFunctions{multiply, round};
    return kFunctions;
}

}  // namespace refactor::kernel
