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

/// Rounds of interleaving vectors that are farthest apart.
template <int bytes, int vectors>
RG_SIMD void interleave_all(__m256i (&a)[vectors]) {
    __m256i b[vectors];
#pragma GCC unroll 3
    for (int apart = 1; apart < vectors; apart *= 2) {
#pragma GCC unroll 4
        for (int i = 0; i < vectors / 2; ++i) interleave<bytes>(a[i], a[i + vectors / 2], b[2 * i], b[2 * i + 1]);
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i) a[i] = b[i];
    }
}

/// Pieces of 16 bytes of `kColumns` rows become `kRows` rows of as many elements. Half of the pieces are in each half
/// of the vectors, where rounds of interleaving those that are farthest apart turn them.
template <int bytes>
struct Square {
    static constexpr int kRows = kPiece / bytes, kColumns = bytes == 8 ? 4 : 16, kVectors = kColumns / 2;

    RG_SIMD static void turn(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride) {
        turn(dst, dst_stride, kRows, [=](int i) __attribute__((always_inline)) { return src + i * src_stride; });
    }
    /// Of `column(i)` for each; only the first `rows` rows are stored.
    template <class F>
    RG_SIMD static void turn(std::byte* dst, int64_t dst_stride, int rows, F column) {
        __m256i a[kVectors];
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i) a[i] = two_pieces(column(i), column(i + kVectors));
        interleave_all<bytes>(a);
#pragma GCC unroll 8
        for (int i = 0; i < kVectors; ++i)
            if constexpr (bytes == 1) {  // two rows, half of each in each half
                __m256i both = _mm256_permute4x64_epi64(a[i], 0xd8);
                auto put = [&](int row, __m128i v) {
                    if (row < rows) _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + row * dst_stride), v);
                };
                put(2 * i, _mm256_castsi256_si128(both)), put(2 * i + 1, _mm256_extracti128_si256(both, 1));
            } else if (i < rows) {
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

/// Less columns than a square has, whose rows lie behind each other: what is written behind a row is overwritten by the
/// next ones, and the last square goes through a buffer.
template <int bytes>
void interleave_few(std::byte* dst, std::byte const* src, int64_t src_stride, int64_t rows, int columns) {
    using Of = Square<bytes>;
    int64_t const row = columns * bytes;
    int64_t at[Of::kColumns];
    for (int i = 0; i < Of::kColumns; ++i) at[i] = (i < columns ? i : columns - 1) * src_stride;
    for (int64_t r = 0; r < rows; r += Of::kRows) {
        int64_t const left = rows - r;
        std::byte const* from = src + r * bytes;
        if ((left - Of::kRows) * row >= Of::kColumns * bytes) {
            Of::turn(dst + r * row, row, Of::kRows, [&](int i) __attribute__((always_inline)) { return from + at[i]; });
            continue;
        }
        int64_t const count = left < Of::kRows ? left : Of::kRows;
        std::byte part[Of::kColumns * kPiece] = {}, turned[Of::kRows * 2 * kPiece];
        for (int c = 0; c < columns; ++c) __builtin_memcpy(part + c * kPiece, from + at[c], count * bytes);
        Of::turn(turned, row, part, kPiece);
        __builtin_memcpy(dst + r * row, turned, count * row);
    }
}

/// The reverse: pixels of less elements than a square has, which lie behind each other. What is read behind a pixel is
/// not stored; the last pixels go through buffers. Begins with pixel `done`.
template <int bytes>
void split_few(std::byte* dst, int64_t dst_stride, std::byte const* src, int rows, int64_t columns, int64_t done) {
    using Of = Square<bytes>;
    int64_t const pixel = rows * bytes;
    auto turn = [=](std::byte * to, int64_t to_stride, std::byte const* from) __attribute__((always_inline)) {
        Of::turn(to, to_stride, rows, [=](int i) __attribute__((always_inline)) { return from + i * pixel; });
    };
    for (; (columns - done - Of::kColumns) * pixel >= kPiece; done += Of::kColumns)
        turn(dst + done * bytes, dst_stride, src + done * pixel);
    for (; done < columns; done += Of::kColumns) {
        int64_t const count = columns - done < Of::kColumns ? columns - done : Of::kColumns;
        std::byte pixels[(Of::kColumns + 1) * kPiece] = {}, planes[Of::kRows * 2 * kPiece];
        __builtin_memcpy(pixels, src + done * pixel, count * pixel);
        turn(planes, 2 * kPiece, pixels);
        for (int r = 0; r < rows; ++r)
            __builtin_memcpy(dst + r * dst_stride + done * bytes, planes + r * 2 * kPiece, count * bytes);
    }
}

/// Pixels of eight bytes to eight planes, 32 at a time; returns how many.
int64_t split_eights(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t pixels) {
    constexpr int kPixels = 32, kPlanes = 8;
    __m256i const pairs = _mm256_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 0, 8, 1, 9, 2, 10, 3,
                                           11, 4, 12, 5, 13, 6, 14, 7, 15);
    int64_t done = 0;
    for (; done + kPixels <= pixels; done += kPixels, src += kPixels * kPlanes) {
        __m256i a[kPlanes];
#pragma GCC unroll 8
        for (int i = 0; i < kPlanes; ++i)
            a[i] = _mm256_shuffle_epi8(two_pieces(src + i * kPiece, src + (kPlanes + i) * kPiece), pairs);
        interleave_all<2>(a);
#pragma GCC unroll 8
        for (int i = 0; i < kPlanes; ++i) store(dst + i * dst_stride + done, a[i]);
    }
    return done;
}

/// Which bytes of 16 of the source, part by part, become 16 of the target; negative: none.
template <int parts>
struct Orders {
    alignas(kPiece) signed char of[parts][parts][kPiece];

    /// `from(target, i)`: of all bytes of the source, the one for byte i of a target.
    template <class F>
    constexpr explicit Orders(F from) : of{} {
        for (int target = 0; target < parts; ++target)
            for (int i = 0; i < kPiece; ++i)
                for (int part = 0; part < parts; ++part) {
                    int at = from(target, i) - part * static_cast<int>(kPiece);
                    of[target][part][i] = static_cast<signed char>(at >= 0 && at < kPiece ? at : -128);
                }
    }
};

/// Planes as pixels of as many elements of `bytes` each.
template <int bytes, int planes>
constexpr Orders<planes> kInterleaved([](int part, int i) {
    int at = part * static_cast<int>(kPiece) + i, element = at / bytes;
    return element % planes * static_cast<int>(kPiece) + element / planes * bytes + at % bytes;
});
/// The reverse.
template <int bytes, int planes>
constexpr Orders<planes> kSplit([](int plane, int i) { return (i / bytes * planes + plane) * bytes + i % bytes; });

/// Pieces that are `step` apart, of which every one advances by `next`.
template <class T>
struct Pieces {
    T* at;
    int64_t step, next;
};

template <int parts>
void shuffle(Orders<parts> const& orders, Pieces<std::byte> to, Pieces<std::byte const> from, int64_t count) {
    __m128i order[parts][parts];
    for (int target = 0; target < parts; ++target)
        for (int part = 0; part < parts; ++part)
            order[target][part] = _mm_load_si128(reinterpret_cast<__m128i const*>(orders.of[target][part]));
    for (; count > 0; --count, from.at += from.next, to.at += to.next) {
        __m128i x[parts];
#pragma GCC unroll 4
        for (int part = 0; part < parts; ++part)
            x[part] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from.at + part * from.step));
#pragma GCC unroll 4
        for (int target = 0; target < parts; ++target) {
            __m128i y = _mm_shuffle_epi8(x[0], order[target][0]);
#pragma GCC unroll 4
            for (int part = 1; part < parts; ++part)
                y = _mm_or_si128(y, _mm_shuffle_epi8(x[part], order[target][part]));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to.at + target * to.step), y);
        }
    }
}

/// The orders of elements of 1, 2 or 8 bytes.
template <int planes>
Orders<planes> const& interleaved(int bytes) {
    return bytes == 1 ? kInterleaved<1, planes> : bytes == 2 ? kInterleaved<2, planes> : kInterleaved<8, planes>;
}
template <int planes>
Orders<planes> const& split(int bytes) {
    return bytes == 1 ? kSplit<1, planes> : bytes == 2 ? kSplit<2, planes> : kSplit<8, planes>;
}

/// Four planes of words as pixels of four, or the reverse.
void turn_fours(Pieces<std::byte> to, Pieces<std::byte const> from, int64_t count) {
    for (; count > 0; --count, from.at += from.next, to.at += to.next) {
        __m128i x[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) x[i] = _mm_loadu_si128(reinterpret_cast<__m128i const*>(from.at + i * from.step));
        __m128i low[2] = {_mm_unpacklo_epi32(x[0], x[1]), _mm_unpacklo_epi32(x[2], x[3])};
        __m128i high[2] = {_mm_unpackhi_epi32(x[0], x[1]), _mm_unpackhi_epi32(x[2], x[3])};
        __m128i const y[4] = {_mm_unpacklo_epi64(low[0], low[1]), _mm_unpackhi_epi64(low[0], low[1]),
                              _mm_unpacklo_epi64(high[0], high[1]), _mm_unpackhi_epi64(high[0], high[1])};
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(to.at + i * to.step), y[i]);
    }
}

template <int planes>
void interleave_pieces(int bytes, std::byte* dst, std::byte const* src, int64_t src_stride, int64_t count) {
    shuffle(interleaved<planes>(bytes), {dst, kPiece, planes * kPiece}, {src, src_stride, kPiece}, count);
}
template <int planes>
void split_pieces(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t count) {
    shuffle(split<planes>(bytes), {dst, dst_stride, kPiece}, {src, kPiece, planes * kPiece}, count);
}

}  // namespace

// Declared in plane.h, which an ISA file must not include: it brings shared inline functions.
void transpose_squares_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride,
                            int64_t rows, int64_t columns);
int64_t interleave_planes_avx2(int bytes, std::byte* dst, std::byte const* src, int64_t src_stride, int64_t planes,
                               int64_t pixels);
int64_t split_pixels_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t planes,
                          int64_t pixels);
void interleave_few_avx2(int bytes, std::byte* dst, std::byte const* src, int64_t src_stride, int64_t planes,
                         int64_t pixels);
void split_few_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t planes,
                    int64_t pixels);

void interleave_few_avx2(int bytes, std::byte* dst, std::byte const* src, int64_t src_stride, int64_t planes,
                         int64_t pixels) {
    (bytes == 1 ? interleave_few<1> : interleave_few<2>)(dst, src, src_stride, pixels, static_cast<int>(planes));
}

void split_few_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t planes,
                    int64_t pixels) {
    int64_t const done = bytes == 1 && planes == 8 ? split_eights(dst, dst_stride, src, pixels) : 0;
    (bytes == 1 ? split_few<1> : split_few<2>)(dst, dst_stride, src, static_cast<int>(planes), pixels, done);
}

void transpose_squares_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride,
                            int64_t rows, int64_t columns) {
    if (bytes == 1) return transpose<1>(dst, dst_stride, src, src_stride, rows, columns);
    if (bytes == 2) return transpose<2>(dst, dst_stride, src, src_stride, rows, columns);
    transpose<8>(dst, dst_stride, src, src_stride, rows, columns);
}

int64_t interleave_planes_avx2(int bytes, std::byte* dst, std::byte const* src, int64_t src_stride, int64_t planes,
                               int64_t pixels) {
    int64_t const count = pixels * bytes / kPiece;
    if (planes == 2)
        interleave_pieces<2>(bytes, dst, src, src_stride, count);
    else if (planes == 3)
        interleave_pieces<3>(bytes, dst, src, src_stride, count);
    else if (bytes == 4)
        turn_fours({dst, kPiece, 4 * kPiece}, {src, src_stride, kPiece}, count);
    else
        interleave_pieces<4>(bytes, dst, src, src_stride, count);
    return count * kPiece / bytes;
}

int64_t split_pixels_avx2(int bytes, std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t planes,
                          int64_t pixels) {
    int64_t const count = pixels * bytes / kPiece;
    if (planes == 2)
        split_pieces<2>(bytes, dst, dst_stride, src, count);
    else if (planes == 3)
        split_pieces<3>(bytes, dst, dst_stride, src, count);
    else if (bytes == 4)
        turn_fours({dst, dst_stride, kPiece}, {src, kPiece, 4 * kPiece}, count);
    else
        split_pieces<4>(bytes, dst, dst_stride, src, count);
    return count * kPiece / bytes;
}

}  // namespace refactor::kernel::movement
