#include "movement/plane.h"

#include "movement/transpose_small.h"

namespace refactor::kernel::movement {

namespace {

/// Blocks of 8 × 8 elements keep one cache line of every row of the block in L1 while it is written.
template <class T>
void transpose_plane(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                     int64_t columns) {
    constexpr int64_t kBlock = 8, kBytes = sizeof(T);
    for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
        auto r1 = std::min(rows, r0 + kBlock);
        for (int64_t c0 = 0; c0 < columns; c0 += kBlock) {
            auto c1 = std::min(columns, c0 + kBlock);
            for (auto r = r0; r < r1; ++r) {
                auto* out = dst + r * dst_stride;
                auto* in = src + r * kBytes;
                for (auto c = c0; c < c1; ++c) store(out + c * kBytes, load<T>(in + c * src_stride));
            }
        }
    }
}

void transpose_plane_bytes(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                           int64_t columns) {
    transpose_bytes(reinterpret_cast<uint8_t const*>(src), src_stride, columns, rows, (columns - 1) * src_stride + rows,
                    reinterpret_cast<uint8_t*>(dst), dst_stride);
}

/// Of few columns or rows, which are less than a vector: pixels of interleaved planes.
void transpose_few_words(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                         int64_t columns) {
    transpose_words(reinterpret_cast<uint32_t const*>(src), src_stride / 4, columns, rows,
                    reinterpret_cast<uint32_t*>(dst), dst_stride / 4);
}

#if RG_X86
/// Of pixels of three words, whose planes are less than a vector; of others by `kPlane`.
template <StridedCopy::PlaneFunction kPlane>
void transpose_plane_words(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                           int64_t columns) {
    (rows == 3 && src_stride == 12 ? transpose_few_words : kPlane)(dst, dst_stride, src, src_stride, rows, columns);
}

/// Planes that pixels have few enough of to be shuffled: two or three words, and four of 8 bytes, are faster otherwise.
constexpr bool is_few(int64_t planes, int bytes) {
    return bytes == 4 ? planes == 4 : planes >= 2 && planes <= (bytes == 8 ? 3 : 4);
}

/// Of few columns or rows, which are pixels, or, but for words, in squares, where there is one; what is left by
/// `kOther`.
template <int kBytes, StridedCopy::PlaneFunction kOther>
void transpose_by_shuffles(std::byte* dst, int64_t dst_stride, std::byte const* src, int64_t src_stride, int64_t rows,
                           int64_t columns) {
    if (is_few(columns, kBytes) && dst_stride == columns * kBytes) {
        auto done = interleave_planes_avx2(kBytes, dst, src, src_stride, columns, rows);
        dst += done * dst_stride, src += done * kBytes, rows -= done;
    } else if (is_few(rows, kBytes) && src_stride == rows * kBytes) {
        auto done = split_pixels_avx2(kBytes, dst, dst_stride, src, rows, columns);
        dst += done * kBytes, src += done * src_stride, columns -= done;
    } else if (kBytes <= 2 && columns > 4 && columns < 16 && dst_stride == columns * kBytes) {
        return interleave_few_avx2(kBytes, dst, src, src_stride, columns, rows);
    } else if (kBytes <= 2 && rows > 4 && rows < 16 / kBytes && src_stride == rows * kBytes) {
        return split_few_avx2(kBytes, dst, dst_stride, src, rows, columns);
    } else if (kBytes != 4 && rows >= 16 / kBytes && columns >= least_columns(kBytes)) {
        return transpose_squares_avx2(kBytes, dst, dst_stride, src, src_stride, rows, columns);
    }
    if (rows && columns) kOther(dst, dst_stride, src, src_stride, rows, columns);
}
#endif

}  // namespace

StridedCopy::PlaneFunction plane_function(int64_t element_bytes, int64_t columns, [[maybe_unused]] Isa isa) {
#if RG_X86
    if (isa >= Isa::Avx2) {
        if (element_bytes == 4 && columns <= 4) return transpose_by_shuffles<4, transpose_few_words>;
        if (element_bytes == 4 && isa >= Isa::Avx512)
            return transpose_by_shuffles<4, transpose_plane_words<transpose_plane_avx512>>;
        if (element_bytes == 4) return transpose_by_shuffles<4, transpose_plane_words<transpose_plane_avx2>>;
        if (element_bytes == 1) return transpose_by_shuffles<1, transpose_plane_bytes>;
        if (element_bytes == 2) return transpose_by_shuffles<2, transpose_plane<uint16_t>>;
        if (element_bytes == 8) return transpose_by_shuffles<8, transpose_plane<uint64_t>>;
    }
#endif
    if (element_bytes == 4 && columns <= 4) return transpose_few_words;
    if (element_bytes == 1) return transpose_plane_bytes;
    return with_word(element_bytes,
                     [](auto word) -> StridedCopy::PlaneFunction { return &transpose_plane<decltype(word)>; });
}

}  // namespace refactor::kernel::movement
