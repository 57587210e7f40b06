#include "simd/vec_avx2.h"
//
#include <cstddef>
#include <cstdint>

namespace refactor::kernel::movement {
namespace {

constexpr int64_t kLine = 64, kPiece = 16;

RG_SIMD __m256i two_pieces(std::byte const* low, std::byte const* high) {
    auto load = [](std::byte const* p) { return _mm_loadu_si128(reinterpret_cast<__m128i const*>(p)); };
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load(low)), load(high), 1);
}
RG_SIMD void store(std::byte* p, __m256i v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }

/// Elements of one half of a vector in turns with those of the other vector's.
template <int bytes>
RG_SIMD void interleave(__m256i a, __m256i b, __m256i& low, __m256i& high) {
    if constexpr (bytes == 1)
        low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    else if constexpr (bytes == 2)
        low = _mm256_unpacklo_epi16(a, b), high = _mm256_unpackhi_epi16(a, b);
    else
        low = _mm256_unpacklo_epi64(a, b), high = _mm256_unpackhi_epi64(a, b);
}

/// Pieces of 16 bytes of `kColumns` rows become `kRows` rows of as many elements. Half of the pieces are in each half
/// of the vectors, where rounds of interleaving those that are farthest apart turn them.
template <int bytes>
struct Square {
    static constexpr int kRows = kPiece / bytes, kColumns = bytes == 8 ? 4 : 16, kVectors = kColumns / 2;

    RG_SIMD static void turn(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride) {
        __m256i a[kVectors], b[kVectors];
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) a[i] = two_pieces(src + i * src_stride, src + (i + kVectors) * src_stride);
#pragma GCC unroll 3
        for (int apart = 1; apart < kVectors; apart *= 2) {
#pragma GCC unroll 4
            for (int i = 0; i < kVectors / 2; ++i) interleave<bytes>(a[i], a[i + kVectors / 2], b[2 * i], b[2 * i + 1]);
#pragma GCC unroll 8
            for (int i = 0; i < kVectors; ++i) a[i] = b[i];
        }
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i)
            if constexpr (bytes == 1) {  // two rows, half of each in each half
                __m256i rows = _mm256_permute4x64_epi64(a[i], 0xd8);
                auto put = [&](int row, __m128i v) {
                    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + row * dst_stride), v);
                };
                put(2 * i, _mm256_castsi256_si128(rows)), put(2 * i + 1, _mm256_extracti128_si256(rows, 1));
            } else {
                store(dst + i * dst_stride, a[i]);
            }
    }
};

/// Squares along the rows first, as far as a line of the target reaches. The last of a row or column overlap others.
template <int bytes>
void transpose(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
               int64_t columns) {
    using Of = Square<bytes>;
    constexpr int64_t kColumns = kLine / bytes;
    for (int64_t c0 = 0; c0 < columns; c0 += kColumns)
        for (int64_t r0 = 0; r0 < rows; r0 += Of::kRows) {
            int64_t const r = r0 + Of::kRows <= rows ? r0 : rows - Of::kRows;
            for (int64_t i = c0; i < c0 + kColumns && i < columns; i += Of::kColumns) {
                int64_t const c = i + Of::kColumns <= columns ? i : columns - Of::kColumns;
                Of::turn(dst + r * dst_stride + c * bytes, dst_stride, src + c * src_stride + r * bytes, src_stride);
            }
        }
}

}  // namespace

// Declared in plane.h, which an ISA file must not include: it brings shared inline functions.
void transpose_squares_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride,
                            int64_t rows, int64_t columns);
void transpose_squares_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride,
                            int64_t rows, int64_t columns) {
    if (bytes == 1) return transpose<1>(dst, dst_stride, src, src_stride, rows, columns);
    if (bytes == 2) return transpose<2>(dst, dst_stride, src, src_stride, rows, columns);
    transpose<8>(dst, dst_stride, src, src_stride, rows, columns);
}

}  // namespace refactor::kernel::movement
